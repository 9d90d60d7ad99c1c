"""One client's session (section 4.1): what waits, what is in flight, what was received. Pure.

QoS 2 is full: a packet id received stays in `received` until PUBREL, a message sent stays in
`inflight` until PUBACK or PUBCOMP, and both survive a reconnect (4.3.3, 4.4).

Bytes are bounded per session and over all of them (`Budget`): a delivery that does not fit is
dropped and counted in `dropped`; the publisher hears 0x97 if nobody could take the message.
"""

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from cloud.broker.codec.packets import Subscription
from cloud.broker.codec.reasons import ReasonCode
from cloud.broker.codec.topics import Shared, split_shared
from cloud.broker.session.messages import Delivery, Drop, Message

PACKET_ID_MAX = 65_535


class Link(Protocol):
    """The network connection a session is attached to."""

    def wake(self) -> None:
        """Ask for `Session.take` to be called soon."""

    def take_over(self, now: float) -> None:
        """Close: the client has connected again elsewhere (3.1.4-3)."""


@dataclass(slots=True)
class Budget:
    """Bytes waiting in all sessions together."""

    bytes_max: int
    used_bytes: int = 0


@dataclass(slots=True)
class Inflight:
    """A QoS>0 message sent and not yet acknowledged; no delivery: PUBREL sent, PUBCOMP due."""

    delivery: Delivery | None
    is_sent: bool = True
    """On the present connection."""


class Send(NamedTuple):
    """A PUBLISH to send; `delivery` None: a PUBREL."""

    delivery: Delivery | None
    packet_id: int
    dup: bool


@dataclass(slots=True)
class Session:
    """State of one client, as plain values a store could keep."""

    client_id: str
    queued_bytes_max: int
    budget: Budget
    expiry_s: float = 0
    ends_at: float | None = None
    """When it ends unless the client returns; None while connected."""
    will: Message | None = None
    will_at: float | None = None
    """A will waits for its delay only while the client is away (3.1.3.2.2)."""
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    queue: deque[Delivery] = field(default_factory=deque)
    queue_qos_0: deque[Delivery] = field(default_factory=deque)
    inflight: dict[int, Inflight] = field(default_factory=dict)
    received: set[int] = field(default_factory=set)
    held_bytes: int = 0
    dropped: Counter[Drop] = field(default_factory=Counter)
    link: Link | None = None
    window: int = 1
    timer_at: float | None = None
    """When the router looks at it next; bounds its timers to one."""
    _resend: deque[int] = field(default_factory=deque)
    _sent: int = 0
    _last_packet_id: int = 0
    _first_expiry_at: float | None = None

    @property
    def pending(self) -> int:
        """Messages waiting or unacknowledged: its load as a member of a share group."""
        return len(self.inflight) + len(self.queue)

    @property
    def shares(self) -> tuple[Shared, ...]:
        """The share groups it is a member of."""
        found = (split_shared(one) for one in self.subscriptions if one.startswith("$share/"))
        return tuple(one for one in found if one is not None)

    def attach(self, link: Link, window: int) -> None:
        """Resume over a new connection: what was in flight is due again, in order (4.4-1)."""
        self.link = link
        self.window = window
        self.ends_at = self.will_at = self.will = None
        self._sent = 0
        self._resend = deque(self.inflight)
        for entry in self.inflight.values():
            entry.is_sent = False

    def detach(self) -> None:
        """Lose the connection; QoS 0 does not wait for another."""
        self.link = None
        for delivery in self.queue_qos_0:
            self._give_up(delivery, Drop.OFFLINE_QOS_0)
        self.queue_qos_0.clear()

    def offer(self, delivery: Delivery, now: float) -> Drop | None:
        """Take a delivery to send later, or say why not."""
        if self.link is None and delivery.qos == 0:
            return Drop.OFFLINE_QOS_0
        if not (self._has_room(delivery) or (self._purge(now) and self._has_room(delivery))):
            return Drop.QUEUE_FULL
        self.put_back(delivery)
        return None

    def enqueue(self, delivery: Delivery, now: float) -> bool:
        """Take a delivery to send later, or count it as dropped and say False."""
        why = self.offer(delivery, now)
        if why is not None:
            self.dropped[why] += 1
        return why is None

    def put_back(self, delivery: Delivery) -> None:
        """Append without asking for room: it was here a moment ago."""
        self.held_bytes += delivery.size_bytes
        self.budget.used_bytes += delivery.size_bytes
        (self.queue if delivery.qos else self.queue_qos_0).append(delivery)
        expires_at = delivery.message.expires_at
        if expires_at is not None:
            first = self._first_expiry_at
            self._first_expiry_at = expires_at if first is None else min(first, expires_at)
        if self.link is not None:
            self.link.wake()

    def take(self, now: float, bytes_max: int) -> list[Send]:
        """Give what may be sent now: within the window, about `bytes_max`, resends first."""
        out: list[Send] = []
        while self._resend and self._sent < self.window:
            packet_id = self._resend.popleft()
            entry = self.inflight.get(packet_id)
            if entry is not None:
                entry.is_sent = True
                self._sent += 1
                out.append(Send(entry.delivery, packet_id, dup=entry.delivery is not None))
        for queue in (self.queue_qos_0, self.queue):
            while queue and bytes_max > 0:
                delivery = queue[0]
                if delivery.message.expires_at is not None and delivery.message.is_expired(now):
                    self._give_up(queue.popleft(), Drop.EXPIRED)
                    continue
                packet_id = 0
                if delivery.qos:
                    if self._sent >= self.window or self._resend:
                        break
                    packet_id = self._next_packet_id()
                    self.inflight[packet_id] = Inflight(delivery)
                    self._sent += 1
                else:
                    self._release(delivery)
                queue.popleft()
                bytes_max -= delivery.size_bytes
                out.append(Send(delivery, packet_id, dup=False))
        return out

    def has_more(self) -> bool:
        """Whether `take` would give something at once."""
        return bool(self.queue_qos_0) or (
            self._sent < self.window and bool(self.queue or self._resend)
        )

    def acknowledge(self, packet_id: int) -> bool:
        """PUBACK or PUBCOMP: it is done. False if nothing by that id was in flight."""
        entry = self.inflight.pop(packet_id, None)
        if entry is None:
            return False
        if entry.is_sent:
            self._sent -= 1
        if entry.delivery is not None:
            self._release(entry.delivery)
        if self.link is not None and (self.queue or self._resend):
            self.link.wake()
        return True

    def received_by_client(self, packet_id: int, reason: int) -> bool:
        """PUBREC: True if PUBREL is due; after an error reason the message is done (4.3.3)."""
        entry = self.inflight.get(packet_id)
        if entry is None:
            return False
        if reason >= ReasonCode.UNSPECIFIED_ERROR:
            self.acknowledge(packet_id)
            return False
        if entry.delivery is not None:
            self._release(entry.delivery)
            entry.delivery = None
        return True

    def too_large(self, send: Send) -> None:
        """Count a delivery over the client's Maximum Packet Size as done (3.1.2.11.4)."""
        self.dropped[Drop.PACKET_TOO_LARGE] += 1
        if send.packet_id:
            self.acknowledge(send.packet_id)

    def withdraw_shared(self, share: Shared | None = None) -> list[Delivery]:
        """Take out what another member of its share group, or of any, may get instead (4.8.2).

        A QoS 2 message already sent stays: handing it on could deliver it twice.
        """
        taken: list[Delivery] = []
        for packet_id, entry in list(self.inflight.items()):
            delivery = entry.delivery
            if delivery is not None and delivery.qos == 1 and _is_of(delivery, share):
                taken.append(delivery)
                self.acknowledge(packet_id)
        kept: deque[Delivery] = deque()
        for delivery in self.queue:
            if _is_of(delivery, share):
                taken.append(delivery)
                self._release(delivery)
            else:
                kept.append(delivery)
        self.queue = kept
        return taken

    def end(self) -> None:
        """Give up all that waits."""
        unsent = [entry.delivery for entry in self.inflight.values() if entry.delivery is not None]
        for delivery in (*unsent, *self.queue, *self.queue_qos_0):
            self._give_up(delivery, Drop.SESSION_ENDED)
        self.queue.clear()
        self.queue_qos_0.clear()
        self.inflight.clear()

    def _has_room(self, delivery: Delivery) -> bool:
        size = delivery.size_bytes
        return (
            self.held_bytes + size <= self.queued_bytes_max
            and self.budget.used_bytes + size <= self.budget.bytes_max
        )

    def _purge(self, now: float) -> bool:
        """Drop expired messages from the queue; only looks where one can have expired."""
        if self._first_expiry_at is None or self._first_expiry_at > now:
            return False
        kept = deque(one for one in self.queue if not one.message.is_expired(now))
        for delivery in self.queue:
            if delivery.message.is_expired(now):
                self._give_up(delivery, Drop.EXPIRED)
        self.queue = kept
        left = [one.message.expires_at for one in kept if one.message.expires_at is not None]
        self._first_expiry_at = min(left, default=None)
        return True

    def _release(self, delivery: Delivery) -> None:
        self.held_bytes -= delivery.size_bytes
        self.budget.used_bytes -= delivery.size_bytes

    def _give_up(self, delivery: Delivery, why: Drop) -> None:
        self._release(delivery)
        self.dropped[why] += 1

    def _next_packet_id(self) -> int:
        packet_id = self._last_packet_id % PACKET_ID_MAX + 1
        while packet_id in self.inflight:
            packet_id = packet_id % PACKET_ID_MAX + 1
        self._last_packet_id = packet_id
        return packet_id


def _is_of(delivery: Delivery, share: Shared | None) -> bool:
    return delivery.share is not None and share in (None, delivery.share)
