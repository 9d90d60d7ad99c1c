"""What the store keeps, as plain rows: `changes` makes them, `store` writes and reads them. Pure.

Times in rows are wall-clock seconds (Unix), as the broker's own clock starts anew with it. One row
each for a message, however many sessions wait for it; a retained message is one that a topic holds.
"""

from dataclasses import dataclass, field
from typing import NamedTuple


class MessageRow(NamedTuple):
    """An application message; never changed once written."""

    message_id: int
    topic: str
    payload: bytes
    qos: int
    retain: bool
    properties: bytes
    """As on the wire, length included (2.2.2); those forwarded unaltered."""
    publisher: str
    expires_at: float | None


class SessionRow(NamedTuple):
    """A session that outlives its connection."""

    client_id: str
    username: str | None
    """Of its last connection: what it may read is judged again when it is loaded."""
    expiry_s: float
    ends_at: float | None
    """None: connected when this was written."""
    will_message_id: int | None
    will_delay_s: float
    will_at: float | None
    """None: connected, so the delay has not begun."""


class SubscriptionRow(NamedTuple):
    """A topic filter of a session; `$share/...` ones too."""

    client_id: str
    topic_filter: str
    options: int
    """The options byte of SUBSCRIBE (3.8.3.1)."""
    identifier: int


class DeliveryRow(NamedTuple):
    """A message on its way to a session. Ids grow: their order is the order of delivery."""

    delivery_id: int
    client_id: str
    message_id: int | None
    """None: QoS 2, PUBREC came, PUBCOMP is due."""
    qos: int
    retain: bool
    identifiers: tuple[int, ...]
    share: str
    """`$share/group/filter`, or empty."""
    packet_id: int
    """0: not sent yet."""


@dataclass(slots=True)
class Batch:
    """Changes to write in one transaction; a key stands in at most one of a pair."""

    number: int
    messages: list[MessageRow] = field(default_factory=list)
    messages_gone: list[int] = field(default_factory=list)
    deliveries: list[DeliveryRow] = field(default_factory=list)
    """Insert or replace."""
    deliveries_gone: list[int] = field(default_factory=list)
    sessions: list[SessionRow] = field(default_factory=list)
    """Insert or replace."""
    sessions_gone: list[str] = field(default_factory=list)
    """Their subscriptions and received packet ids go with them; deliveries are named one by one."""
    subscriptions: list[SubscriptionRow] = field(default_factory=list)
    """Insert or replace."""
    subscriptions_gone: list[tuple[str, str]] = field(default_factory=list)
    received: list[tuple[str, int]] = field(default_factory=list)
    """(client id, packet id) of QoS 2 messages whose PUBREL is due."""
    received_gone: list[tuple[str, int]] = field(default_factory=list)
    retained: list[tuple[str, int]] = field(default_factory=list)
    """(topic, message id); insert or replace."""
    retained_gone: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Snapshot:
    """All that the store holds, deliveries by rising id; ids in it are consistent."""

    messages: list[MessageRow] = field(default_factory=list)
    deliveries: list[DeliveryRow] = field(default_factory=list)
    sessions: list[SessionRow] = field(default_factory=list)
    subscriptions: list[SubscriptionRow] = field(default_factory=list)
    received: list[tuple[str, int]] = field(default_factory=list)
    retained: list[tuple[str, int]] = field(default_factory=list)
