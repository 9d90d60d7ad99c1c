"""Events on their way to rollouts: bounded, in the order in which they came. Pure."""

from collections import deque

from cloud.rollouts.events import Event


class Pending:
    """What has no room is dropped; then `missed` says that rollouts must read the store again."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._events: deque[Event] = deque()
        self.missed = False
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._events)

    def put(self, event: Event) -> None:
        if len(self._events) >= self._count_max:
            self.missed = True
            self.dropped += 1
            return
        self._events.append(event)

    def take(self) -> tuple[list[Event], bool]:
        """All of them, and whether some were dropped since the last time."""
        events, missed = list(self._events), self.missed
        self._events.clear()
        self.missed = False
        return events, missed
