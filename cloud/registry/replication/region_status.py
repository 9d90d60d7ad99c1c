"""What a registry says of its place among the regions. Pure."""

from typing import Literal

from pydantic import Field

from cloud.document import Document

RegionState = Literal[
    "home", "unsure",  # a home that reached none of its peers yet
    "starting", "following", "copying", "away", "forked",  # a replica
    "fenced",
]  # fmt: skip


class RegionStatus(Document):
    """`behind`: entries that a home spoke of and this one lacks; `counts` since the start."""

    role: Literal["home", "replica", "fenced"]
    state: RegionState
    epoch: int
    seq: int
    behind: int = 0
    artifacts_missing: int = 0
    home: str | None = None  # whom to ask for changes, where it is not this one
    why: str = ""
    counts: dict[str, int] = Field(default_factory=dict)
