"""A store in memory beside the fuzzed cores: what they commit must hang together and not pile up."""

from dataclasses import dataclass, field

from cloud.broker.session.changes import Changes
from cloud.broker.session.records import (
    Batch,
    DeliveryRow,
    MessageRow,
    SessionRow,
    Snapshot,
    SubscriptionRow,
)
from cloud.broker.store.consistency import consistent
from simulations.broker_fuzz.client import Wrong


@dataclass(slots=True)
class Shadow:
    """The rows of all committed batches."""

    messages: dict[int, MessageRow] = field(default_factory=dict)
    deliveries: dict[int, DeliveryRow] = field(default_factory=dict)
    sessions: dict[str, SessionRow] = field(default_factory=dict)
    subscriptions: dict[tuple[str, str], SubscriptionRow] = field(default_factory=dict)
    received: set[tuple[str, int]] = field(default_factory=set)
    retained: dict[str, int] = field(default_factory=dict)
    _handed: Batch | None = None

    def advance(self, changes: Changes, now: float) -> None:
        """Commit the batch that is on its way, or take the next one; raises `Wrong`."""
        if self._handed is None:
            if not changes.is_empty:
                self._handed = changes.hand(now, now)
            return
        batch, self._handed = self._handed, None
        self._apply(batch)
        changes.committed(batch.number)
        gone = consistent(self.snapshot())[1]
        if gone.counts:
            raise Wrong(f"batch {batch.number} leaves rows that belong to nothing: {gone.counts}")

    def crash(self) -> None:
        """Lose the batch that is on its way."""
        self._handed = None

    def snapshot(self) -> Snapshot:
        """Give all rows."""
        return Snapshot(
            [*self.messages.values()], [self.deliveries[one] for one in sorted(self.deliveries)],
            [*self.sessions.values()], [*self.subscriptions.values()], sorted(self.received),
            sorted(self.retained.items()),
        )  # fmt: skip

    def expect_only_retained(self) -> None:
        """Raise `Wrong` if anything is left but retained messages: all sessions have ended."""
        left = {
            "sessions": len(self.sessions), "deliveries": len(self.deliveries),
            "subscriptions": len(self.subscriptions), "received": len(self.received),
            "messages": len(self.messages.keys() - set(self.retained.values())),
        }  # fmt: skip
        if any(left.values()):
            raise Wrong(f"no session is left, but the store keeps {left}")

    def _apply(self, batch: Batch) -> None:
        for message in batch.messages:
            self.messages[message.message_id] = message
        for delivery in batch.deliveries:
            self.deliveries[delivery.delivery_id] = delivery
        for session in batch.sessions:
            self.sessions[session.client_id] = session
        for client_id in batch.sessions_gone:
            self.sessions.pop(client_id, None)
            self.received = {one for one in self.received if one[0] != client_id}
            for key in [one for one in self.subscriptions if one[0] == client_id]:
                del self.subscriptions[key]
        for one in batch.subscriptions:
            self.subscriptions[one.client_id, one.topic_filter] = one
        for gone in batch.subscriptions_gone:
            self.subscriptions.pop(gone, None)
        self.received.update(batch.received)
        self.received.difference_update(batch.received_gone)
        self.retained.update(batch.retained)
        for topic in batch.retained_gone:
            self.retained.pop(topic, None)
        for message_id in batch.messages_gone:
            self.messages.pop(message_id, None)
        for delivery_id in batch.deliveries_gone:
            self.deliveries.pop(delivery_id, None)
