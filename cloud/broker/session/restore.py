"""Sessions and retained messages again from what the store held. Pure."""

from typing import Final, Literal, NamedTuple, cast

from cloud.broker.codec import properties
from cloud.broker.codec.fields import Reader
from cloud.broker.codec.packets import Qos, Subscription
from cloud.broker.codec.topics import split_shared
from cloud.broker.limits import Limits
from cloud.broker.session.changes import Changes
from cloud.broker.session.inflight import Budget, Inflight
from cloud.broker.session.messages import Delivery, Message
from cloud.broker.session.records import MessageRow, Snapshot, SubscriptionRow
from cloud.broker.session.session import Session

_WILL_PROPERTIES: Final = properties.WILL
_PUBLISH: Final = 3


class Restored(NamedTuple):
    """What a router starts with."""

    sessions: list[Session]
    retained: list[Message]


def last_id(snapshot: Snapshot) -> int:
    """Give the highest id in use."""
    return max(
        max((row.message_id for row in snapshot.messages), default=0),
        max((row.delivery_id for row in snapshot.deliveries), default=0),
    )


def restored(
    snapshot: Snapshot, changes: Changes, limits: Limits, budget: Budget, now: float, wall: float
) -> Restored:
    """Make sessions of rows; their times, in Unix seconds, become those of `now`'s clock."""
    shift = now - wall
    wills = {row.will_message_id for row in snapshot.sessions}
    messages = {
        row.message_id: _message(row, shift, is_will=row.message_id in wills)
        for row in snapshot.messages
    }
    for message_id, message in messages.items():
        changes.restore(message, message_id)
    sessions: dict[str, Session] = {}
    for row in snapshot.sessions:
        session = Session(
            row.client_id, limits.queued_bytes_max, budget, changes,
            username=row.username, expiry_s=row.expiry_s,
            ends_at=_shifted(row.ends_at, shift, now + row.expiry_s),
            will_delay_s=row.will_delay_s,
            will_at=_shifted(row.will_at, shift, now + row.will_delay_s),
        )  # fmt: skip
        if row.will_message_id is not None:
            session.will = _owed(messages[row.will_message_id])
        sessions[row.client_id] = session
    for one in snapshot.subscriptions:
        sessions[one.client_id].subscriptions[one.topic_filter] = _subscription(one), one.identifier
    for client_id, packet_id in snapshot.received:
        sessions[client_id].received.add(packet_id)
    for delivery in snapshot.deliveries:
        session = sessions[delivery.client_id]
        if delivery.message_id is None:
            entry = Inflight(None, is_sent=False, row_id=delivery.delivery_id)
            session.inflight[delivery.packet_id] = entry
            continue
        message = _owed(messages[delivery.message_id])
        session.restore(
            Delivery(
                message, cast("Qos", delivery.qos), bool(delivery.retain), delivery.identifiers,
                split_shared(delivery.share) if delivery.share else None, message.size_bytes,
                delivery.delivery_id, delivery.client_id, delivery.packet_id, is_handed=True,
            )
        )  # fmt: skip
    retained = [_owed(messages[message_id]) for _, message_id in snapshot.retained]
    return Restored(list(sessions.values()), retained)


def _shifted(at: float | None, shift: float, at_max: float) -> float | None:
    """A wall clock that was set back meanwhile makes nothing last longer than from now on."""
    return min(at + shift, at_max) if at is not None else None


def _owed(message: Message) -> Message:
    assert message.kept is not None
    message.kept.owed += 1
    return message


def _message(row: MessageRow, shift: float, *, is_will: bool) -> Message:
    found: properties.Properties = ()
    if row.properties != b"\0":
        found = properties.decode(Reader(row.properties), _WILL_PROPERTIES if is_will else _PUBLISH)
    expires_at = row.expires_at + shift if row.expires_at is not None else None
    return Message(
        row.topic, row.payload, cast("Qos", row.qos), bool(row.retain), found, row.publisher,
        expires_at,
    )  # fmt: skip


def _subscription(row: SubscriptionRow) -> Subscription:
    return Subscription(
        row.topic_filter, cast("Qos", row.options & 3), bool(row.options & 4),
        bool(row.options & 8), cast("Literal[0, 1, 2]", row.options >> 4 & 3),
    )  # fmt: skip
