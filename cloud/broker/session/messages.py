"""What travels between sessions: messages, their deliveries, and why one was given up. Pure."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

from cloud.broker.codec.packets import Qos
from cloud.broker.codec.properties import Properties, PropertyId
from cloud.broker.codec.topics import Shared

OVERHEAD_BYTES: Final = 128
"""What a waiting delivery costs beside its topic and payload, roughly."""


class Drop(StrEnum):
    """Why a message did not reach a session; counted, never silent."""

    QUEUE_FULL = "queue_full"
    """The session's or the broker's byte bound."""
    OFFLINE_QOS_0 = "offline_qos_0"
    """QoS 0 for a session without connection is not kept (3.1.2.4 leaves it to the server)."""
    EXPIRED = "expired"
    """Message expiry (3.3.2.3.3)."""
    PACKET_TOO_LARGE = "packet_too_large"
    """Over the client's Maximum Packet Size (3.1.2.11.4)."""
    SESSION_ENDED = "session_ended"
    """Still waiting when the session expired or was replaced by a clean start."""
    NOT_AUTHORIZED = "not_authorized"
    """Waited for a session that may no longer read its topic, as the rules were read anew."""


class Promise(Protocol):
    """What an acknowledgement waits for."""

    @property
    def holds(self) -> bool:
        """Whether it may be sent."""

    def call_when_held(self, wake: Callable[[], None]) -> None:
        """Have `wake` called when `holds` may have become true; once or more often."""


@dataclass(slots=True, eq=False)
class Commit:
    """One group of changes on its way to disk."""

    number: int
    holds: bool = False
    is_promised: bool = False
    """Somebody waits for it as a whole, whatever becomes of its changes."""
    waiting: list[Callable[[], None]] = field(default_factory=list)
    kept: list["Kept"] = field(default_factory=list)
    """Messages in it."""

    def call_when_held(self, wake: Callable[[], None]) -> None:
        """Have `wake` called once the group is on disk."""
        self.waiting.append(wake)


@dataclass(slots=True, eq=False)
class Kept:
    """A message that durable state refers to: it is on disk, on its way there, or owed no more.

    A message delivered and acknowledged before its group is written never touches the disk.
    """

    message: "Message"
    commit: Commit
    message_id: int = 0
    owed: int = 0
    """Deliveries, retained topic and will that refer to it."""
    is_handed: bool = False
    """Its present row was given to the store."""
    was_handed: bool = False
    """So was this one or one before it."""
    waiting: list[Callable[[], None]] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether its publisher may hear that it was taken."""
        return not self.owed or self.commit.holds

    def keep(self, message_id: int, commit: Commit) -> None:
        """Be written with a group.

        Written once already, it is handed on: the group that deletes the old row has the new one,
        so it is as safe as it was, and who waited goes on waiting for the first group.
        """
        self.message_id, self.is_handed = message_id, False
        if not self.was_handed and self.commit is not commit:
            self.commit = commit
            commit.waiting.extend(self.waiting)

    def call_when_held(self, wake: Callable[[], None]) -> None:
        """Have `wake` called when it is on disk, and when nobody is owed it any more."""
        self.waiting.append(wake)
        self.commit.waiting.append(wake)


@dataclass(slots=True)
class Message:
    """An application message, not changed once made. `expires_at` is on the clock of `now`.

    Not frozen, which would cost 1 us for each one made; `kept` is the store's mark on it.
    """

    topic: str
    payload: bytes
    qos: Qos
    retain: bool = False
    properties: Properties = ()
    """Those that are forwarded unaltered; expiry, alias and identifiers are taken out."""
    publisher: str = ""
    expires_at: float | None = None
    kept: Kept | None = field(default=None, compare=False, repr=False)

    @property
    def size_bytes(self) -> int:
        """What it counts for in a bounded queue."""
        extra = 64 * len(self.properties) if self.properties else 0
        return OVERHEAD_BYTES + len(self.payload) + len(self.topic) + extra

    def is_expired(self, now: float) -> bool:
        """Whether its Message Expiry Interval has passed."""
        return self.expires_at is not None and self.expires_at <= now


@dataclass(slots=True)
class Delivery:
    """One message on its way to one session."""

    message: Message
    qos: Qos
    retain: bool
    identifiers: tuple[int, ...]
    """Subscription identifiers (3.3.2.3.8)."""
    share: Shared | None
    """The share group it was taken from; it may be handed to another member."""
    size_bytes: int
    delivery_id: int = 0
    """Its row in the store, 0 for none."""
    client_id: str = ""
    """Whose row."""
    packet_id: int = 0
    is_handed: bool = False
    """Its row was given to the store."""


def forwarded(delivery: Delivery, now: float) -> Properties:
    """Give the properties to send: the publisher's, what is left of the expiry, identifiers."""
    message = delivery.message
    found = message.properties
    if message.expires_at is not None:
        left_s = max(1, round(message.expires_at - now))
        found = (*found, (PropertyId.MESSAGE_EXPIRY_INTERVAL, left_s))
    if delivery.identifiers:
        more = ((PropertyId.SUBSCRIPTION_IDENTIFIER, one) for one in delivery.identifiers)
        found = (*found, *more)
    return found


_NOT_FORWARDED: Final = frozenset({
    PropertyId.MESSAGE_EXPIRY_INTERVAL, PropertyId.TOPIC_ALIAS, PropertyId.WILL_DELAY_INTERVAL,
})  # fmt: skip


def split_expiry(found: Properties, now: float) -> tuple[Properties, float | None]:
    """Part what is forwarded unaltered (3.3.2.3) from when the message expires."""
    kept = tuple(one for one in found if one[0] not in _NOT_FORWARDED)
    for identifier, value in found:
        if identifier is PropertyId.MESSAGE_EXPIRY_INTERVAL and isinstance(value, int):
            return kept, now + value
    return kept, None
