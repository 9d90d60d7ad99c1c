"""What happens when, on virtual time. Two things at one moment happen in the order they were put down."""

import heapq
from collections.abc import Callable

EPOCH = 1_800_000_000.0
"""Unix seconds at which every simulation starts; a day in January 2027."""
_Entry = tuple[float, int, Callable[[], None]]


class Agenda:
    def __init__(self) -> None:
        self.now = EPOCH
        """Unix seconds."""
        self.done = 0
        """Entries that were carried out."""
        self.stopped = False
        self._entries: list[_Entry] = []
        self._number = 0

    def after(self, delay_s: float, what: Callable[[], None]) -> None:
        """Put down `what` for `delay_s` from now."""
        self._number += 1
        heapq.heappush(self._entries, (self.now + max(delay_s, 0.0), self._number, what))

    def run_until(self, end: float) -> None:
        """Carry out all that is due up to `end` (Unix seconds), or until somebody sets `stopped`."""
        self.stopped = False
        entries = self._entries
        while entries and entries[0][0] <= end:
            if self.stopped:
                return
            self.now, _, what = heapq.heappop(entries)
            what()
            self.done += 1
        self.now = max(self.now, end)

    def __len__(self) -> int:
        return len(self._entries)
