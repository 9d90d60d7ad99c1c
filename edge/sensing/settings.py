"""The `sources` part of the agent's settings: one entry for each source."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from shared.config import Positive, Section


class FolderSource(Section):
    """Images that other programs put into a folder."""

    kind: Literal["folder"]
    path: Path
    """Subfolders are not read."""

    interval_s: Positive = 1.0
    """Seconds between two looks at the folder; cheap at once a second, on any file system."""

    after: Literal["keep", "delete"] = "keep"
    """What becomes of a file once its sample is on record; never delete unasked."""


class ReplaySource(Section):
    """A data set played back: IDX or NPY/NPZ file, or a folder of PNG and JPEG."""

    kind: Literal["replay"]
    path: Path
    """One file or folder."""

    rate_per_s: Positive | None = None
    """Samples a second; as fast as it goes when absent."""

    shard: Annotated[str, Field(pattern=r"^[0-9]{1,6}/[1-9][0-9]{0,5}$")] | None = None
    """ "0/3" plays every third sample from the first: three agents share one data set."""

    repeat: bool = False
    """Start over at the end, for soak tests."""

    @model_validator(mode="after")
    def _shard_exists(self) -> Self:
        index, count = self.part
        if index >= count:
            raise ValueError(f"shard {self.shard!r}: the first number must be below the second")
        return self

    @property
    def part(self) -> tuple[int, int]:
        """`shard` as numbers; (0, 1) is the whole."""
        index, count = (self.shard or "0/1").split("/")
        return int(index), int(count)


Source = Annotated[FolderSource | ReplaySource, Field(discriminator="kind")]
