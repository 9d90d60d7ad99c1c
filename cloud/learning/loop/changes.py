"""Who waits for a cycle to move on."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Changes:
    """On one event loop. As large as there are who wait."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Event]] = {}

    def happened(self, cycle: str) -> None:
        for moved in self._waiting.get(cycle, ()):
            moved.set()

    @contextmanager
    def watched(self, cycle: str) -> Iterator[asyncio.Event]:
        """Set when the cycle moves on within the block."""
        moved = asyncio.Event()
        self._waiting.setdefault(cycle, set()).add(moved)
        try:
            yield moved
        finally:
            self._waiting[cycle].discard(moved)
            if not self._waiting[cycle]:
                del self._waiting[cycle]

    def __len__(self) -> int:
        """Cycles that somebody watches."""
        return len(self._waiting)
