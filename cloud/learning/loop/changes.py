"""Who waits for a cycle to move on."""

import asyncio


class Changes:
    """On one event loop."""

    def __init__(self) -> None:
        self._moved: dict[str, asyncio.Event] = {}

    def happened(self, cycle: str) -> None:
        if (moved := self._moved.pop(cycle, None)) is not None:
            moved.set()

    def next(self, cycle: str) -> asyncio.Event:
        """Set when the cycle moves on after this call; there are as many as calls that wait."""
        return self._moved.setdefault(cycle, asyncio.Event())
