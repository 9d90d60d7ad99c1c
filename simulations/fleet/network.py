"""A broker with retained messages and the links to it, which lose, delay, repeat, reorder and cut.

As MQTT at QoS 1 does: a publish that is not acknowledged tells its sender, who keeps it; one
connection's messages reach the broker in order, but subscribers may see them late, twice and in
another order. A restart keeps retained messages and the control plane's queue, or loses both.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from simulations.fleet.agenda import Agenda

INBOX_MAX = 20_000
Message = tuple[str, object]
"""Topic, and a frozen document or its bytes."""


@dataclass(frozen=True, slots=True)
class Weather:
    """What is wrong with the network now; all shares are of messages."""

    lost: float = 0.0
    """Cuts the sender's connection."""
    twice: float = 0.0
    reordered: float = 0.0
    """Come up to `late_s` later, which lets others overtake."""
    delay_s: float = 0.02
    late_s: float = 30.0


CALM = Weather()


class Client(Protocol):
    """A device as the broker sees it."""

    id: str

    def receive(self, topic: str, payload: object) -> None: ...

    def cut(self) -> None:
        """The connection ended."""


class Network:
    def __init__(self, agenda: Agenda, rng: Random, inbox_max: int = INBOX_MAX) -> None:
        """`inbox_max`: messages that wait for a control plane which is away; the oldest goes first."""
        self._agenda, self._rng, self.inbox_max = agenda, rng, inbox_max
        self.weather = CALM
        self.up = True
        self.apart: set[str] = set()
        """Devices behind a partition."""
        self.control_apart = False
        self.retained: dict[str, object] = {}
        self.inbox: deque[Message] = deque()
        """For the control plane, in the order of arrival; bounded."""
        self.inbox_dropped = 0
        self.inbox_longest = 0
        self.control_linked = False
        """The control plane's connection stands."""
        self._unacknowledged: list[Message] = []
        self.sent = 0
        """Messages that came to the broker."""
        self._clients: dict[str, Client] = {}
        self._wills: dict[str, Message] = {}
        self._lives: dict[str, int] = {}  # connections so far

    # Devices

    def connect(self, client: Client, birth: Message, will: Message, topics: Sequence[str]) -> bool:
        """False: not reachable now. The retained messages of its topics come at once."""
        if not self.reaches(client.id):
            return False
        self._clients[client.id], self._wills[client.id] = client, will
        self._lives[client.id] = self._lives.get(client.id, 0) + 1
        self._arrive(*birth, retained=True)
        for topic in topics:
            if topic in self.retained:
                self._deliver(client.id, topic, self.retained[topic])
        return True

    def connected(self, device: str) -> bool:
        return device in self._clients

    def reaches(self, device: str) -> bool:
        return self.up and device not in self.apart

    def publish(self, device: str, topic: str, payload: object, *, retained: bool) -> bool:
        """Whether the broker acknowledged it. False: the connection is cut, and it may have come."""
        if device not in self._clients:
            return False
        if self._happens(self.weather.lost):
            if self._happens(0.5):  # it came, the acknowledgement did not
                self._arrive(topic, payload, retained=retained)
            self.hang_up(device)
            return False
        self._arrive(topic, payload, retained=retained)
        return True

    def hang_up(self, device: str) -> None:
        """End a connection; the broker then publishes its will."""
        client = self._clients.pop(device, None)
        if client is None:
            return
        if self.up:
            self._arrive(*self._wills[device], retained=True)
        client.cut()

    # The control plane

    def command(self, topic: str, payload: object, device: str) -> bool:
        """A retained message for a device. False: no acknowledgement, send it again."""
        if not self.control_linked:
            return False
        if self._happens(self.weather.lost):
            self.control_gone()
            return False
        self.retained[topic] = payload
        if device in self._clients:
            self._deliver(device, topic, payload)
        return True

    def take(self, count: int) -> list[Message]:
        """What came for the control plane, at most `count`; nothing while it is cut off.

        Until `acknowledge` the broker keeps what is retained; telemetry is acknowledged at once.
        """
        if not self.control_linked:
            return []
        inbox = self.inbox
        taken = [inbox.popleft() for _ in range(min(count, len(inbox)))]
        self._unacknowledged = [one for one in taken if one[0] in self.retained]
        return taken

    def acknowledge(self) -> None:
        """All that was taken is written down."""
        self._unacknowledged = []

    def control_gone(self) -> None:
        """The control plane's connection ended; what it did not acknowledge comes again, first."""
        self.control_linked = False
        self.inbox.extendleft(reversed(self._unacknowledged))
        self._unacknowledged = []

    def resubscribe(self) -> bool:
        """The control plane connects: every retained message of a device comes anew.

        False: it cannot reach the broker.
        """
        if not self.up or self.control_apart:
            return False
        self.control_linked = True
        for topic, payload in list(self.retained.items()):
            if "/up/" in topic:
                self._enqueue(topic, payload)
        return True

    # The broker

    def restart(self, *, forgets: bool) -> None:
        """Down and up again: every connection ends, without wills."""
        self.up = False
        for device in list(self._clients):
            self.hang_up(device)
        self.control_gone()
        self.up = True
        if forgets:
            self.retained.clear()
            self.inbox.clear()

    def _happens(self, share: float) -> bool:
        return share > 0 and self._rng.random() < share

    def _arrive(self, topic: str, payload: object, *, retained: bool) -> None:
        self.sent += 1
        if retained:
            self.retained[topic] = payload
        weather = self.weather
        if weather is CALM:  # most of 100,000 devices' messages
            self._enqueue(topic, payload)
            return
        for _ in range(1 + self._happens(weather.twice)):
            self._agenda.after(self._delay_s(), lambda: self._enqueue(topic, payload))

    def _enqueue(self, topic: str, payload: object) -> None:
        if not self.up:
            return
        if len(self.inbox) >= self.inbox_max:
            self.inbox.popleft()
            self.inbox_dropped += 1
        self.inbox.append((topic, payload))
        self.inbox_longest = max(self.inbox_longest, len(self.inbox))

    def _deliver(self, device: str, topic: str, payload: object) -> None:
        life = self._lives[device]

        def land() -> None:
            client = self._clients.get(device)
            if client is not None and self._lives[device] == life:
                client.receive(topic, payload)

        for _ in range(1 + self._happens(self.weather.twice)):
            self._agenda.after(self._delay_s(), land)

    def _delay_s(self) -> float:
        weather = self.weather
        delay = weather.delay_s * self._rng.expovariate(1.0) if weather.delay_s else 0.0
        return delay + (
            self._rng.random() * weather.late_s if self._happens(weather.reordered) else 0
        )
