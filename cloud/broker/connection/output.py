"""What goes to a client beside messages: at once, or in order and only when it is true. Pure.

Acknowledgements keep the order of what they answer (4.6). One that promises something durable waits
until that is on disk, and those behind it wait with it.
"""

from collections import deque
from collections.abc import Callable

from cloud.broker.session.messages import Promise


class Output:
    """Encoded packets on their way out."""

    __slots__ = ("_now", "_waiting", "_wake", "bytes_held", "is_open", "publishes_waiting")

    def __init__(self, wake: Callable[[], None]) -> None:
        """`wake` is called when `take` may have something that it had not."""
        self._wake = wake
        self._now: list[bytes] = []
        self._waiting: deque[tuple[bytes, Promise | None, bool]] = deque()
        self.is_open = True
        """Whether anything may go: nothing does before a CONNACK (3.2.0-1)."""
        self.bytes_held = 0
        """Of what goes at once: it grows while the client does not read."""
        self.publishes_waiting = 0
        """PUBACKs and PUBRECs that wait: they count for our Receive Maximum (3.3.4)."""

    def __len__(self) -> int:
        """How many acknowledgements wait."""
        return len(self._waiting)

    @property
    def is_ready(self) -> bool:
        """Whether `take` would give something."""
        return bool(self._now) or (bool(self._waiting) and _holds(self._waiting[0][1]))

    def open(self, connack: bytes, promise: Promise | None) -> None:
        """Send a CONNACK once what it says is on disk, and nothing before it."""
        self.answer(connack, promise)
        self.is_open = not self._waiting

    def put(self, packet: bytes) -> None:
        """Send at once."""
        if not self.is_open:
            self.answer(packet, None)
            return
        self._now.append(packet)
        self.bytes_held += len(packet)

    def answer(self, packet: bytes, promise: Promise | None, *, is_publish: bool = False) -> None:
        """Send once the promise holds, after the answers before it; `is_publish`: to a PUBLISH."""
        if not self._waiting and _holds(promise):
            self._now.append(packet)
            self.bytes_held += len(packet)
            return
        self._waiting.append((packet, promise, is_publish))
        self.publishes_waiting += is_publish
        if promise is not None and not promise.holds:
            promise.call_when_held(self._wake)

    def put_last(self, packet: bytes) -> None:
        """Send what may be sent, then this, then nothing: a good-bye (3.14.4-1)."""
        out = self.take()
        self._now = [*out, packet] if self.is_open else []
        self._waiting.clear()

    def take(self) -> list[bytes]:
        """Take out what may be sent now."""
        out, self._now, self.bytes_held = self._now, [], 0
        waiting = self._waiting
        while waiting and _holds(waiting[0][1]):
            self.is_open = True
            packet, _, is_publish = waiting.popleft()
            self.publishes_waiting -= is_publish
            out.append(packet)
        return out


def _holds(promise: Promise | None) -> bool:
    return promise is None or promise.holds
