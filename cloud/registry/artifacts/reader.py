"""An artifact that is being read."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path

from cloud.registry.artifacts.blobs import Blobs
from shared.errors import Malformed, NotTrusted

Part = bytes  # beside the field of that name


@dataclass(frozen=True, slots=True)
class Reader:
    """Its size, and its bytes by range; whoever reads checks the hash, which is its name.

    `path`: where it is a file on this machine, which `sendfile` serves without copying.
    """

    sha256: str
    bytes: int
    path: Path | None
    _blobs: Blobs = field(repr=False)

    async def ranges(self, start: int = 0, end: int | None = None) -> AsyncGenerator[Part, None]:
        """Bytes `start` to before `end` (None: all), in parts of at most 4 MiB.

        Raises `Malformed` for a range that it does not have, `NotTrusted` when the file has become
        shorter than it was, `Unknown` when it is gone, `Unavailable`.
        """
        end = self.bytes if end is None else end
        if not 0 <= start <= end <= self.bytes:
            raise Malformed(f"bytes {start} to {end} of {self.bytes}: no such range")
        left = end - start
        async with aclosing(self._blobs.ranges(self.sha256, start, end)) as parts:
            async for part in parts:
                left -= len(part)
                yield part
        if left:
            raise NotTrusted(f"artifact {self.sha256[:16]}...: {left} bytes are missing at its end")
