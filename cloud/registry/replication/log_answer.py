"""What `GET /v1/log` gives. Pure."""

from typing import Annotated

from pydantic import Field, StringConstraints

from cloud.document import Document
from cloud.registry.documents import Entry, Head

Signature = Annotated[str, StringConstraints(max_length=4000)]
"""Of a head, as `cloud/registry/trust/heads.py` writes it."""


class LogAnswer(Document):
    """`head` is where `entries` end (without any: where the asked one's own log ends), so that a part
    of a long log is vouched for as well; its epoch is that of the home which signed it. A replica
    passes on what its home signed.
    """

    entries: Annotated[tuple[Entry, ...], Field(max_length=1000)]
    head: Head
    signature: Signature
    newest: Annotated[int, Field(ge=0)]  # the last entry that the asked one knows of; unsigned
