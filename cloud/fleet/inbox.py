"""What waits to be stored: the newest message of each topic, bounded. Pure; `now` is given.

Every message of a device says all of its topic (reports whole, counters cumulative), so a newer one
takes the place of one that waits, and a device that floods costs a look-up for each message. What
is over a device's rate waits for its turn; telemetry over it is dropped.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from shared.token_bucket import TokenBucket

Dropped = Literal["superseded", "too_fast", "no_room"]


@dataclass(frozen=True, slots=True)
class Waiting:
    device: str
    kind: str
    payload: bytes
    ack: Callable[[], None]


class Inbox:
    """`dropped` is called with each reason and device."""

    def __init__(
        self,
        pending_max: int,
        per_s: float,
        burst: float,
        devices_max: int,
        dropped: Callable[[Dropped, str], None],
    ) -> None:
        self._pending_max, self._per_s, self._burst = pending_max, per_s, burst
        self._devices_max, self._dropped = devices_max, dropped
        self._pending: dict[tuple[str, str], Waiting] = {}
        self._rates: OrderedDict[str, TokenBucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._pending)

    def put(self, message: Waiting) -> None:
        """Telemetry is acknowledged here; other messages by who takes them, or by what replaces them.

        What has no room is not acknowledged: the broker sends it again with the next connection.
        """
        key = message.device, message.kind
        before = self._pending.get(key)
        if before is not None:
            self._dropped("superseded", message.device)
            if before.kind != "tel":
                before.ack()
        elif len(self._pending) >= self._pending_max:
            self._dropped("no_room", message.device)
            if message.kind == "tel":
                message.ack()
            return
        if message.kind == "tel":
            message.ack()
        self._pending[key] = message

    def put_back(self, message: Waiting) -> None:
        """What was taken and could not be stored, unless a newer one has come."""
        key = message.device, message.kind
        if key not in self._pending:
            self._pending[key] = message
        elif message.kind != "tel":
            message.ack()

    def take(self, count_max: int, now: float) -> list[Waiting]:
        """The oldest ones whose devices may speak now; `now` in seconds, monotonic."""
        taken: list[Waiting] = []
        for key, message in list(self._pending.items()):
            if len(taken) >= count_max:
                break
            if not self._rate(message.device).take(now):
                if message.kind == "tel":
                    del self._pending[key]
                    self._dropped("too_fast", message.device)
                continue
            del self._pending[key]
            taken.append(message)
        return taken

    def _rate(self, device: str) -> TokenBucket:
        found = self._rates.get(device)
        if found is None:
            while len(self._rates) >= self._devices_max:
                self._rates.popitem(last=False)
            found = self._rates[device] = TokenBucket(self._per_s, self._burst)
        else:
            self._rates.move_to_end(device)
        return found
