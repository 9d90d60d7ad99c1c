"""How a device gets a certificate, over HTTPS: `POST /v1/enrol` and `POST /v1/renew`, JSON."""

from typing import Annotated

from pydantic import Field, StringConstraints

from shared.fleet.document import Document

BYTES_MAX = 64 * 1024
PEM_LENGTH_MAX = 16 * 1024

_Pem = Annotated[str, StringConstraints(min_length=50, max_length=PEM_LENGTH_MAX)]


class Enrolled(Document):
    """The answer to both."""

    certificate: _Pem
    ca: _Pem
    """Whom the device is to believe in: who signed the broker's and the API's certificates."""
    renew_after: Annotated[float, Field(ge=0, le=1e11)]
    """Unix seconds by the region's clock."""
    broker: Annotated[str, StringConstraints(max_length=300)] | None = None
    """Where devices find the broker, if the region says so."""
