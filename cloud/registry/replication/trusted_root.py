"""The newest TUF root that this registry has verified, kept over restarts.

Whoever has seen a root of a higher fencing epoch hears no home of a lower one any more.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from shared.disk import write_whole
from shared.errors import Malformed, Refused, Unavailable
from shared.trust.chain import Chain, epoch_of

FetchRoot = Callable[[int], Awaitable[bytes | None]]
_WALK_MAX: Final = 256  # roots in one go; a root a day for most of a year


class TrustedRoot:
    """Belongs to one event loop; several tasks may `walk`."""

    def __init__(self, file: Path, pinned: bytes) -> None:
        """Read what was kept, or begin with `pinned`. Raises `Malformed`, `Unavailable`."""
        self._file = file
        self._lock = asyncio.Lock()
        try:
            self.content = file.read_bytes()
        except FileNotFoundError:
            self.content = pinned
        except OSError as error:
            raise Unavailable(f"{file}: {error.strerror}") from error
        try:
            self.root = Chain(self.content).root
        except Refused as error:
            raise Malformed(
                f"{file}: {error}; restore it from a backup, or remove it: then the pinned root counts"
            ) from error

    @property
    def version(self) -> int:
        return self.root.version

    @property
    def epoch(self) -> int:
        return epoch_of(self.root)

    async def walk(self, fetch: FetchRoot) -> bool:
        """Take every newer root that `fetch` has; whether there was one.

        Raises `NotTrusted` at the first that is not signed as it must be (TUF specification, 5.3),
        and what `fetch` raises.
        """
        moved = False
        for _ in range(_WALK_MAX):
            version = self.version + 1
            content = await fetch(version)  # without the lock: one who is silent holds up no other
            if content is None:
                break
            async with self._lock:
                if self.version + 1 == version:  # else another task has taken it meanwhile
                    await self._take(content)
                    moved = True
        return moved

    async def _take(self, content: bytes) -> None:
        chain = Chain(self.content)
        chain.add_root(content)
        await asyncio.to_thread(write_whole, self._file, content)
        self.root, self.content = chain.root, content
