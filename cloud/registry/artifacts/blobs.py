"""The seam below the artifact store: whole files by hash, in a directory or in a bucket.

Synchronous but for `ranges`; threads belong to the caller. Raises `Unavailable` when the place
cannot be reached, is full, or does not let this process in.
"""

import re
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from shared.errors import Malformed

_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Stored:
    """One artifact. `renewed_at`: Unix seconds, when it was stored or last asked about."""

    sha256: str
    bytes: int
    renewed_at: float


class Blobs(Protocol):
    @property
    def where(self) -> str:
        """What error messages call it."""
        ...

    def check(self) -> None:
        """Raises what any call would: a bucket that is not there, credentials that do not fit."""
        ...

    def stat(self, sha256: str) -> Stored | None: ...

    def renew(self, sha256: str) -> int | None:
        """From now on it is young. Its size in bytes; None, and nothing done, when it is not here."""
        ...

    def put(self, sha256: str, content: bytes) -> None:
        """Store; durable when this returns. The same content under the same name changes nothing."""
        ...

    def place(self, sha256: str, staged: Path) -> None:
        """As `put`, from a file that is complete and synced; afterwards `staged` is gone."""
        ...

    def path(self, sha256: str) -> Path | None:
        """Its file, where it is one on this machine."""
        ...

    def parts(self, sha256: str) -> Iterator[bytes]:
        """All its bytes. Raises `Unknown`."""
        ...

    def ranges(self, sha256: str, start: int, end: int) -> AsyncGenerator[bytes, None]:
        """Bytes `start` to before `end`. Raises `Unknown`; may end early when the file is short."""
        ...

    def walk(self) -> Iterator[Stored]: ...

    def remove(self, sha256: str) -> None: ...

    def set_aside(self, sha256: str, kept_max: int) -> None:
        """Move it to where nothing reads; of those, the newest `kept_max` stay."""
        ...


def key(sha256: str) -> str:
    """`sha256/ab/abcdef...`: a directory of 256 is one that every file system lists fast."""
    return f"sha256/{sha256[:2]}/{sha256}"


def is_sha256(text: str) -> bool:
    return _SHA256.fullmatch(text) is not None


def checked_sha256(text: str) -> str:
    """Raises `Malformed` for what is not a SHA-256 in lower-case hex: it becomes a file's name."""
    if not is_sha256(text):
        raise Malformed(f"{text[:80]!r} is no SHA-256: 64 hexadecimal digits in lower case")
    return text
