"""A region asks a device something once, and the device answers: not retained.

`hy/v1/{device}/down/ask` and `hy/v1/{device}/up/told`.
"""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from shared.fleet.document import Document, Text

ASK_BYTES_MAX = 1024
TOLD_BYTES_MAX = 64 * 1024
LINES_MAX = 200

_Id = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]


class Ask(Document):
    id: _Id
    what: Literal["logs"]
    lines: Annotated[int, Field(ge=1, le=LINES_MAX)] = 100


class Told(Document):
    id: _Id
    lines: Annotated[
        tuple[Annotated[str, StringConstraints(max_length=2000)], ...],
        Field(max_length=LINES_MAX, fail_fast=True),
    ]
    """The newest last, as the agent logs them: JSON objects, without payloads and secrets."""
    why: Text = ""
