"""What a batch reads, wherever it lies: inputs that are listed once and then read one by one."""

from dataclasses import dataclass
from typing import Protocol

FILES_MAX = 1_000_000
"""Inputs of one listing; each takes about 0.5 KB of memory."""


@dataclass(frozen=True, slots=True)
class Found:
    """One input as it was when it was listed."""

    name: str  # below the source, with "/" between folders
    size_bytes: int
    tag: str  # changes whenever the content does: an ETag, a hash, or a time of modification
    modified: float  # Unix seconds
    why_not: str | None = None  # what keeps it from being read, where the listing shows it


class Source(Protocol):
    """Both calls block: they belong in a thread."""

    @property
    def where(self) -> str:
        """For messages and the journal."""
        ...

    def find(self) -> list[Found]:
        """All inputs by name. Raises `Unknown`, `TooLarge` (too many) or `Unavailable`."""
        ...

    def read(self, found: Found) -> bytes:
        """An input's bytes.

        Raises `Refused` when it is not what was listed any more, `Unavailable` when the same call
        may succeed later.
        """
        ...
