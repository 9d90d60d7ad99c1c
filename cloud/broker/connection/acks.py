"""Acknowledgements in the order of what they answer (4.6), each only when it is true. Pure."""

from collections import deque
from collections.abc import Callable

from cloud.broker.session.messages import Promise


class Acks:
    """Packets that wait until what they promise is on disk, and those behind them."""

    __slots__ = ("_waiting", "_wake", "publishes")

    def __init__(self, wake: Callable[[], None]) -> None:
        """`wake` is called when `ready` may have something."""
        self._wake = wake
        self._waiting: deque[tuple[bytes, Promise | None, bool]] = deque()
        self.publishes = 0
        """Among those waiting, PUBACK and PUBREC: what counts for our Receive Maximum."""

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def admits(self, promise: Promise | None) -> bool:
        """Whether an acknowledgement may be sent now, past this queue."""
        return not self._waiting and (promise is None or promise.holds)

    def put(self, packet: bytes, promise: Promise | None, *, is_publish: bool) -> None:
        """Append one."""
        self._waiting.append((packet, promise, is_publish))
        self.publishes += is_publish
        if promise is not None and not promise.holds:
            promise.call_when_held(self._wake)

    def ready(self) -> list[bytes]:
        """Take out those that may be sent now."""
        out: list[bytes] = []
        waiting = self._waiting
        while waiting:
            packet, promise, is_publish = waiting[0]
            if promise is not None and not promise.holds:
                break
            waiting.popleft()
            self.publishes -= is_publish
            out.append(packet)
        return out

    @property
    def is_ready(self) -> bool:
        """Whether `ready` would give something."""
        if not self._waiting:
            return False
        promise = self._waiting[0][1]
        return promise is None or promise.holds
