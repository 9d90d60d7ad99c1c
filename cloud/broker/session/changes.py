"""What the store must be told, gathered until it asks, and who waits until it is on disk. Pure.

Sessions, the router and connections note here what changed; the last word on a key replaces the
ones before it, and what came and went between two groups is never written. `hand` gives a group to
the store, `committed` says that it is on disk and wakes the acknowledgements that waited for it.
"""

from typing import Final

from cloud.broker.codec import properties
from cloud.broker.codec.packets import Subscription
from cloud.broker.session.messages import Commit, Delivery, Kept, Message, Promise
from cloud.broker.session.records import (
    Batch,
    DeliveryRow,
    MessageRow,
    SessionRow,
    SubscriptionRow,
)

SETTLING_MAX: Final = 64
"""Deliveries on their way to clients: with more, they do not come back soon."""


class Changes:
    """Everything not yet handed to the store."""

    def __init__(self, last_id: int = 0) -> None:
        """Start with nothing to write; new rows get ids above `last_id`."""
        self._last_id = last_id
        self._pending = Commit(1)
        self._handed: dict[int, Commit] = {}
        self._messages: dict[int, Kept | None] = {}
        self._deliveries: dict[int, Delivery | DeliveryRow | None] = {}
        self._sessions: dict[str, SessionRow | None] = {}
        self._subscriptions: dict[tuple[str, str], SubscriptionRow | None] = {}
        self._received: dict[tuple[str, int], bool] = {}
        self._retained: dict[str, int | None] = {}

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to hand over, and nobody who waits until it was."""
        return not (
            self._pending.is_promised or self._deliveries or self._messages or self._sessions or self._subscriptions
            or self._received or self._retained
        )  # fmt: skip

    @property
    def may_settle(self) -> bool:
        """Whether all that is pending are a few messages sent and not acknowledged yet."""
        if self._pending.is_promised or len(self._deliveries) > SETTLING_MAX:
            return False
        if self._sessions or self._subscriptions or self._received or self._retained:
            return False
        return all(
            one is None or (isinstance(one, Delivery) and one.qos == 1 and one.packet_id > 0)
            for one in self._deliveries.values()
        )

    def promise(self) -> Promise | None:
        """Give what to wait for until all that changed so far is on disk; None if it is.

        The group is handed over even if nothing of it is left by then.
        """
        if not self.is_empty:
            self._pending.is_promised = True
            return self._pending
        return next(reversed(self._handed.values()), None)

    def owe(self, client_id: str, delivery: Delivery) -> None:
        """Keep a delivery until `settle`."""
        self._last_id += 1
        delivery.delivery_id, delivery.client_id, delivery.packet_id = self._last_id, client_id, 0
        delivery.is_handed = False
        self.keep(delivery.message)
        self._deliveries[delivery.delivery_id] = delivery

    def sent(self, delivery: Delivery) -> Promise:
        """Note the packet id of a delivery; gives what to wait for until it is on disk."""
        self._deliveries[delivery.delivery_id] = delivery
        return self._pending

    def settle(self, delivery: Delivery) -> None:
        """Forget a delivery: it was acknowledged, handed on or given up."""
        if delivery.is_handed:
            self._deliveries[delivery.delivery_id] = None
        else:
            self._deliveries.pop(delivery.delivery_id, None)
        delivery.delivery_id = 0
        self.release(delivery.message)

    def received_by_client(self, delivery: Delivery) -> int:
        """PUBREC came: the payload is no longer needed, the packet id is. Gives the row's id."""
        row = DeliveryRow(
            delivery.delivery_id, delivery.client_id, None, 2, False, (), "", delivery.packet_id
        )
        self._deliveries[row.delivery_id] = row
        delivery.delivery_id = 0
        self.release(delivery.message)
        return row.delivery_id

    def completed(self, delivery_id: int) -> None:
        """PUBCOMP came for a delivery that `received_by_client` reduced to its packet id."""
        self._deliveries[delivery_id] = None

    def keep(self, message: Message) -> int:
        """Hold a message until `release`; gives its id."""
        kept = message.kept
        if kept is None:
            kept = message.kept = Kept(message, self._pending)
        if not kept.owed:  # new, or handed on from one session to another in one breath
            self._last_id += 1
            kept.keep(self._last_id, self._pending)
            self._messages[kept.message_id] = kept
        kept.owed += 1
        return kept.message_id

    def restore(self, message: Message, message_id: int) -> None:
        """Mark a message that the store holds; whoever refers to it adds to `kept.owed`."""
        held = Commit(0, holds=True)
        message.kept = Kept(message, held, message_id, is_handed=True, was_handed=True)

    def release(self, message: Message) -> None:
        """Let go of a message; the last one to do so has it deleted."""
        kept = message.kept
        if kept is None:
            return
        kept.owed -= 1
        if not kept.owed:
            if kept.is_handed:
                self._messages[kept.message_id] = None
            else:
                self._messages.pop(kept.message_id, None)
            for wake in kept.waiting:
                wake()

    def session(self, row: SessionRow) -> None:
        """Write a session, with `ends_at` and `will_at` on the clock of `now`."""
        self._sessions[row.client_id] = row

    def session_gone(self, client_id: str) -> None:
        """Delete a session; its subscriptions and received packet ids are named beside it."""
        self._sessions[client_id] = None

    def subscribed(self, client_id: str, wanted: Subscription, identifier: int) -> None:
        """Write a subscription."""
        options = wanted.qos | wanted.no_local << 2 | wanted.retain_as_published << 3
        options |= wanted.retain_handling << 4
        row = SubscriptionRow(client_id, wanted.topic_filter, options, identifier)
        self._subscriptions[client_id, wanted.topic_filter] = row

    def unsubscribed(self, client_id: str, topic_filter: str) -> None:
        """Delete a subscription."""
        self._subscriptions[client_id, topic_filter] = None

    def received(self, client_id: str, packet_id: int, *, is_open: bool) -> None:
        """Write or delete the packet id of a QoS 2 message whose PUBREL is due."""
        self._received[client_id, packet_id] = is_open

    def retained(self, topic: str, message: Message | None) -> None:
        """Write a topic's retained message, or delete it; `release` the old one separately."""
        self._retained[topic] = self.keep(message) if message is not None else None

    def hand(self, now: float, wall: float) -> Batch:
        """Give all that is pending, with times as Unix seconds: `wall` is what `now` is there."""
        commit = self._pending
        batch = Batch(commit.number)
        shift = wall - now
        for message_id, kept in self._messages.items():
            if kept is None:
                batch.messages_gone.append(message_id)
            else:
                kept.is_handed = kept.was_handed = True
                commit.kept.append(kept)
                batch.messages.append(_message_row(kept, shift))
        for delivery_id, delivery in self._deliveries.items():
            if delivery is None:
                batch.deliveries_gone.append(delivery_id)
            elif isinstance(delivery, DeliveryRow):
                batch.deliveries.append(delivery)
            else:
                delivery.is_handed = True
                batch.deliveries.append(_delivery_row(delivery))
        for client_id, session in self._sessions.items():
            if session is None:
                batch.sessions_gone.append(client_id)
            else:
                batch.sessions.append(_shifted(session, shift))
        for subscription, row in self._subscriptions.items():
            if row is None:
                batch.subscriptions_gone.append(subscription)
            else:
                batch.subscriptions.append(row)
        for received, is_open in self._received.items():
            (batch.received if is_open else batch.received_gone).append(received)
        for topic, kept_id in self._retained.items():
            if kept_id is None:
                batch.retained_gone.append(topic)
            else:
                batch.retained.append((topic, kept_id))
        for changed in (
            self._messages, self._deliveries, self._sessions, self._subscriptions,
            self._received, self._retained,
        ):  # fmt: skip
            changed.clear()
        self._handed[commit.number] = commit
        self._pending = Commit(commit.number + 1)
        return batch

    def committed(self, number: int) -> None:
        """Note that a group is on disk."""
        commit = self._handed.pop(number)
        commit.holds = True
        waiting, commit.waiting = commit.waiting, []
        for kept in commit.kept:  # else a retained message would hold on to who published it
            kept.waiting.clear()
        for wake in waiting:
            wake()


def _message_row(kept: Kept, shift: float) -> MessageRow:
    one = kept.message
    expires_at = one.expires_at + shift if one.expires_at is not None else None
    encoded = properties.encode(one.properties)
    return MessageRow(
        kept.message_id, one.topic, one.payload, one.qos, one.retain, encoded, one.publisher,
        expires_at,
    )  # fmt: skip


def _delivery_row(one: Delivery) -> DeliveryRow:
    kept = one.message.kept
    assert kept is not None, "a delivery in the store keeps its message"
    share = f"$share/{one.share.group}/{one.share.topic_filter}" if one.share is not None else ""
    return DeliveryRow(
        one.delivery_id, one.client_id, kept.message_id, one.qos, one.retain, one.identifiers,
        share, one.packet_id,
    )  # fmt: skip


def _shifted(row: SessionRow, shift: float) -> SessionRow:
    ends_at = row.ends_at + shift if row.ends_at is not None else None
    will_at = row.will_at + shift if row.will_at is not None else None
    return row._replace(ends_at=ends_at, will_at=will_at)
