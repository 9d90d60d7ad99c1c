"""One client's session (section 4.1): its subscriptions, will, life, and what it is owed. Pure.

A packet id received with QoS 2 stays in `received` until PUBREL and survives a reconnect (4.3.3).
A session with `changes` is durable: what changes is noted there.
"""

from dataclasses import dataclass, field

from cloud.broker.codec.packets import Subscription
from cloud.broker.codec.topics import Shared, split_shared
from cloud.broker.session.inflight import Link
from cloud.broker.session.messages import Message
from cloud.broker.session.outgoing import Outgoing
from cloud.broker.session.records import SessionRow


@dataclass(slots=True)
class Session(Outgoing):
    """State of one client."""

    username: str | None = None
    expiry_s: float = 0
    ends_at: float | None = None
    """When it ends unless the client returns; None while connected."""
    will: Message | None = None
    """As the client gave it, expiry among its properties: it begins when the will is published."""
    will_delay_s: float = 0
    will_at: float | None = None
    """A will waits for its delay only while the client is away (3.1.3.2.2)."""
    subscriptions: dict[str, tuple[Subscription, int]] = field(default_factory=dict)
    """With the subscription identifier, 0 for none."""
    received: set[int] = field(default_factory=set)
    timer_at: float | None = None
    """When the router looks at it next; bounds its timers to one."""

    @property
    def shares(self) -> tuple[Shared, ...]:
        """The share groups it is a member of."""
        found = (split_shared(one) for one in self.subscriptions if one.startswith("$share/"))
        return tuple(one for one in found if one is not None)

    def resume(self, link: Link, window: int) -> None:
        """Go on over a new connection."""
        self.ends_at = self.will_at = None
        self.attach(link, window)

    def set_will(self, will: Message | None, delay_s: float = 0) -> None:
        """Replace the will."""
        if self.changes is not None:
            if will is not None:
                self.changes.keep(will)
            if self.will is not None:
                self.changes.release(self.will)
        self.will, self.will_delay_s = will, delay_s
        if will is None:
            self.will_at = None

    def note(self) -> None:
        """Have the store write how long this session lives and what its will is."""
        if self.changes is not None:
            kept = self.will.kept if self.will is not None else None
            self.changes.session(
                SessionRow(
                    self.client_id, self.username, self.expiry_s, self.ends_at,
                    kept.message_id if kept is not None else None, self.will_delay_s, self.will_at,
                )
            )  # fmt: skip

    def subscribe(self, wanted: Subscription, identifier: int) -> None:
        """Add or replace a subscription."""
        self.subscriptions[wanted.topic_filter] = wanted, identifier
        if self.changes is not None:
            self.changes.subscribed(self.client_id, wanted, identifier)

    def unsubscribe(self, topic_filter: str) -> bool:
        """Remove a subscription; False if there was none."""
        if self.subscriptions.pop(topic_filter, None) is None:
            return False
        if self.changes is not None:
            self.changes.unsubscribed(self.client_id, topic_filter)
        return True

    def open_received(self, packet_id: int) -> None:
        """Remember a QoS 2 message received until its PUBREL (4.3.3)."""
        self.received.add(packet_id)
        if self.changes is not None:
            self.changes.received(self.client_id, packet_id, is_open=True)

    def close_received(self, packet_id: int) -> bool:
        """PUBREL: its packet id may be used anew. False if it was not open."""
        if packet_id not in self.received:
            return False
        self.received.discard(packet_id)
        if self.changes is not None:
            self.changes.received(self.client_id, packet_id, is_open=False)
        return True

    def forget(self) -> None:
        """Take it out of the store: it has ended, or will with its connection."""
        changes = self.changes
        if changes is None:
            return
        for delivery in self.waiting():
            if delivery.delivery_id:
                changes.settle(delivery)
        for entry in self.inflight.values():
            if entry.row_id:
                changes.completed(entry.row_id)
        for topic_filter in self.subscriptions:
            changes.unsubscribed(self.client_id, topic_filter)
        for packet_id in self.received:
            changes.received(self.client_id, packet_id, is_open=False)
        if self.will is not None:
            changes.release(self.will)
        changes.session_gone(self.client_id)
        self.changes = None

    def end(self) -> None:
        """Give up all that waits, in the store too."""
        self.give_up_all()
        self.forget()
        self.inflight.clear()
