"""What travels between sessions: messages, their deliveries, and why one was given up. Pure."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

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


@dataclass(frozen=True, slots=True)
class Message:
    """An application message. `expires_at` is on the clock that `now` comes from."""

    topic: str
    payload: bytes
    qos: Qos
    retain: bool = False
    properties: Properties = ()
    """Those that are forwarded unaltered; expiry, alias and identifiers are taken out."""
    publisher: str = ""
    expires_at: float | None = None

    @property
    def size_bytes(self) -> int:
        """What it counts for in a bounded queue."""
        extra = 64 * len(self.properties) if self.properties else 0
        return OVERHEAD_BYTES + len(self.payload) + len(self.topic) + extra

    def is_expired(self, now: float) -> bool:
        """Whether its Message Expiry Interval has passed."""
        return self.expires_at is not None and self.expires_at <= now


@dataclass(frozen=True, slots=True)
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
