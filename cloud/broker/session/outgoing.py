"""What one client is owed (sections 4.3, 4.4): what waits, what is in flight, within bounds. Pure.

QoS 2 is full: a message sent stays in `inflight` until PUBACK or PUBCOMP and survives a reconnect.

Bytes are bounded per session and over all of them (`Budget`): a delivery that does not fit is
dropped and counted in `dropped`; the publisher hears 0x97 if nobody could take the message.

With `changes`, each QoS>0 delivery and its packet id is noted there. A QoS 2 message leaves only
when its packet id is on disk, as a resend under another would be a second message; QoS 1 need not
wait.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from cloud.broker.codec.reasons import ReasonCode
from cloud.broker.codec.topics import Shared
from cloud.broker.session.changes import Changes
from cloud.broker.session.inflight import (
    PACKET_ID_MAX,
    RETRIEVED_AT_ONCE,
    RETRIEVED_BYTES_MAX,
    Budget,
    Inflight,
    Link,
    Retrieval,
    Send,
)
from cloud.broker.session.messages import Delivery, Drop, Promise


@dataclass(slots=True)
class Outgoing:
    """Deliveries to one client, in order."""

    client_id: str
    queued_bytes_max: int
    budget: Budget
    changes: Changes | None = None
    """None: it ends with its connection, or the broker has no store."""
    queue: deque[Delivery] = field(default_factory=deque)
    queue_qos_0: deque[Delivery] = field(default_factory=deque)
    inflight: dict[int, Inflight] = field(default_factory=dict)
    held_bytes: int = 0
    dropped: Counter[Drop] = field(default_factory=Counter)
    retrievals: deque[Retrieval] = field(default_factory=deque)
    """Of retained messages, as the client reads them."""
    link: Link | None = None
    window: int = 1
    _due: deque[int] = field(default_factory=deque)
    """Packet ids to send, in order: again after a reconnect, or once they are on disk."""
    _sent: int = 0
    _last_packet_id: int = 0
    _first_expiry_at: float | None = None

    @property
    def pending(self) -> int:
        """Messages waiting or unacknowledged: its load as a member of a share group."""
        return len(self.inflight) + len(self.queue)

    def attach(self, link: Link, window: int) -> None:
        """Resume over a new connection: what was in flight is due again, in order (4.4-1)."""
        self.link = link
        self.window = window
        self._sent = 0
        self._due = deque(self.inflight)
        for entry in self.inflight.values():
            entry.is_sent = False
            if entry.promise is not None and not entry.promise.holds:
                entry.promise.call_when_held(link.wake)

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
        if self.changes is not None and delivery.qos:
            self.changes.owe(self.client_id, delivery)
        self.restore(delivery)
        if self.link is not None:
            self.link.wake()
        return None

    def enqueue(self, delivery: Delivery, now: float) -> bool:
        """Take a delivery to send later, or count it as dropped and say False."""
        why = self.offer(delivery, now)
        if why is not None:
            self.dropped[why] += 1
        return why is None

    def restore(self, delivery: Delivery) -> None:
        """Append what the store holds, and what it will."""
        self._hold(delivery)
        if delivery.packet_id:
            self.inflight[delivery.packet_id] = Inflight(delivery, is_sent=False)
            return
        (self.queue if delivery.qos else self.queue_qos_0).append(delivery)
        expires_at = delivery.message.expires_at
        if expires_at is not None:
            first = self._first_expiry_at
            self._first_expiry_at = expires_at if first is None else min(first, expires_at)

    def take(self, now: float, bytes_max: int) -> list[Send]:
        """Give what may be sent now: within the window, about `bytes_max`, what is due first."""
        out: list[Send] = []
        if self.retrievals:
            self._retrieve(now)
        if self._due:
            out.extend(self._take_due())
        for queue in (self.queue_qos_0, self.queue):
            while queue and bytes_max > 0:
                delivery = queue[0]
                if delivery.message.expires_at is not None and delivery.message.is_expired(now):
                    self._give_up(queue.popleft(), Drop.EXPIRED)
                    continue
                if delivery.qos and self._sent + len(self._due) >= self.window:
                    break
                queue.popleft()
                bytes_max -= delivery.size_bytes
                if not delivery.qos:
                    self._release(delivery)
                    out.append((delivery, 0, False))
                elif (send := self._assign(delivery)) is not None:
                    out.append(send)
        return out

    def has_more(self) -> bool:
        """Whether `take` would give something at once."""
        if self.queue_qos_0 or (self.retrievals and self.held_bytes < RETRIEVED_BYTES_MAX):
            return True
        if self._sent >= self.window:
            return False
        return self._is_next_due() if self._due else bool(self.queue)

    def acknowledge(self, packet_id: int) -> bool:
        """PUBACK or PUBCOMP: it is done. False if nothing by that id was in flight."""
        entry = self.inflight.pop(packet_id, None)
        if entry is None:
            return False
        if entry.is_sent:
            self._sent -= 1
        if entry.delivery is not None:
            self._release(entry.delivery)
        elif entry.row_id and self.changes is not None:
            self.changes.completed(entry.row_id)
        if self.link is not None and (self.queue or self._due):
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
        delivery, entry.delivery = entry.delivery, None
        if delivery is not None:
            self._unhold(delivery)
            if self.changes is not None and delivery.delivery_id:
                entry.row_id = self.changes.received_by_client(delivery)
        return True

    def too_large(self, packet_id: int) -> None:
        """Count a delivery over the client's Maximum Packet Size as done (3.1.2.11.4)."""
        self.dropped[Drop.PACKET_TOO_LARGE] += 1
        if packet_id:
            self.acknowledge(packet_id)

    def hand_over(self, give: Callable[[Delivery], bool], share: Shared | None = None) -> None:
        """Offer what another member of a share group, or of that one, may get instead (4.8.2).

        What `give` does not take stays as it is, under its packet identifier (4.4.0-1). So does a
        QoS 2 message already sent: handing it on could deliver it twice. For a session without
        connection.
        """
        for packet_id, entry in list(self.inflight.items()):
            delivery = entry.delivery
            if delivery is None or not (delivery.qos == 1 or entry.is_first):
                continue
            if _is_of(delivery, share) and self._gives(delivery, give):
                del self.inflight[packet_id]
        if any(_is_of(delivery, share) for delivery in self.queue):
            self.queue = deque(
                delivery
                for delivery in self.queue
                if not (_is_of(delivery, share) and self._gives(delivery, give))
            )

    def _gives(self, delivery: Delivery, give: Callable[[Delivery], bool]) -> bool:
        self._unhold(delivery)  # its bytes are not to stand in its own way
        if not give(delivery):
            self._hold(delivery)
            return False
        if delivery.delivery_id and self.changes is not None:
            self.changes.settle(delivery)
        return True

    def waiting(self) -> Iterator[Delivery]:
        """Give each QoS>0 delivery not acknowledged yet, in order."""
        for entry in self.inflight.values():
            if entry.delivery is not None:
                yield entry.delivery
        yield from self.queue

    def drop_unless(self, is_owed: Callable[[Delivery], bool], why: Drop) -> None:
        """Drop each delivery not acknowledged that `is_owed` says no to."""
        for packet_id, entry in list(self.inflight.items()):
            if entry.delivery is not None and not is_owed(entry.delivery):
                self.dropped[why] += 1
                self.acknowledge(packet_id)
        for queue in (self.queue, self.queue_qos_0):
            kept = [one for one in queue if is_owed(one)]
            if len(kept) < len(queue):
                for delivery in queue:
                    if not is_owed(delivery):
                        self._give_up(delivery, why)
                queue.clear()
                queue.extend(kept)

    def give_up_all(self) -> None:
        """Drop what waits: the session ends."""
        for delivery in (*self.waiting(), *self.queue_qos_0):
            self._give_up(delivery, Drop.SESSION_ENDED)
        self.queue.clear()
        self.queue_qos_0.clear()
        self.retrievals.clear()

    def _retrieve(self, now: float) -> None:
        """Queue retained messages: a few, so that others get their turn, and while there is room."""
        for _ in range(RETRIEVED_AT_ONCE):
            if not self.retrievals or self.held_bytes >= RETRIEVED_BYTES_MAX:
                return
            try:
                delivery = self.retrievals[0].send(now)
            except StopIteration:
                self.retrievals.popleft()
                continue
            if delivery is not None:
                self.enqueue(delivery, now)

    def _take_due(self) -> Iterator[Send]:
        while self._due and self._sent < self.window:
            entry = self.inflight.get(self._due[0])
            if entry is not None:
                if not self._is_next_due():
                    return
                dup = entry.delivery is not None and not entry.is_first
                entry.is_sent, entry.is_first, entry.promise = True, False, None
                self._sent += 1
                yield entry.delivery, self._due[0], dup
            self._due.popleft()

    def _is_next_due(self) -> bool:
        entry = self.inflight.get(self._due[0])
        return entry is None or entry.promise is None or entry.promise.holds

    def _assign(self, delivery: Delivery) -> Send | None:
        """Give a delivery its packet id; None if something must come before it is sent."""
        packet_id = delivery.packet_id = self._next_packet_id()
        promise: Promise | None = None
        if self.changes is not None and delivery.delivery_id:
            on_disk = self.changes.sent(delivery)
            promise = on_disk if delivery.qos == 2 else None
        if promise is None and not self._due:
            self.inflight[packet_id] = Inflight(delivery)
            self._sent += 1
            return (delivery, packet_id, False)
        self.inflight[packet_id] = Inflight(delivery, False, True, promise)
        self._due.append(packet_id)
        if promise is not None and self.link is not None:
            promise.call_when_held(self.link.wake)
        return None

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
        self._unhold(delivery)
        if delivery.delivery_id and self.changes is not None:
            self.changes.settle(delivery)

    def _hold(self, delivery: Delivery) -> None:
        self.held_bytes += delivery.size_bytes
        self.budget.used_bytes += delivery.size_bytes

    def _unhold(self, delivery: Delivery) -> None:
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
