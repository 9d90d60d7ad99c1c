"""The `identity` part of the agent's settings."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from edge.identity.address import check_url
from shared.config import Positive, Section
from shared.errors import Malformed
from shared.fetching.settings import Url


class Identity(Section):
    """This device's certificate from its region; `hybridge-edge enrol` gets the first one."""

    url: Url
    """https:// address of the region's fleet, where certificates are renewed."""

    ca: Path | None = None
    """PEM file of who vouches for that address; what the region gave at enrolment when absent."""

    timeout_s: Positive = 30.0
    """Seconds for one request; a tethered phone needs a few."""

    retry_s_min: Positive = 30.0
    """Seconds; the bound of the first pause after a failure, before jitter. There is a third of the
    certificate's life for it."""

    retry_s_max: Annotated[float, Field(gt=0, le=86_400)] = 6 * 3600.0
    """Seconds; the longest."""

    look_s: Positive = 60.0
    """Seconds between two looks for the first certificate, until the device is enrolled."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        try:
            check_url(self.url)
        except Malformed as error:
            raise ValueError(str(error)) from error
        if self.retry_s_min > self.retry_s_max:
            raise ValueError("retry_s_min is above retry_s_max")
        return self

    def rooted(self, root: Path) -> Self:
        """With relative paths made relative to `root`."""
        return self if self.ca is None else self.model_copy(update={"ca": root / self.ca})
