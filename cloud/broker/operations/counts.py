"""What the broker counts: plain numbers that the shell and the rules add to as things happen.

One attribute is one increment on the hot path. All count from the broker's start. Keys of the
counters are `ReasonCode` names (2.4) or one of the constants below, so their number is bounded.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

CONNECTION_LIMIT: Final = "CONNECTION_LIMIT"
"""Refused before a CONNECT was read: as many connections as allowed are open."""
CLIENT_LEFT: Final = "CLIENT_LEFT"
"""Closed by the client's DISCONNECT (3.14)."""
CONNECTION_LOST: Final = "CONNECTION_LOST"
"""Closed by the network, without DISCONNECT."""


@dataclass(slots=True)
class Counts:
    """Totals since the start, as they stand."""

    messages_received: int = 0
    """MQTT control packets of any type, read whole."""
    messages_sent: int = 0
    """MQTT control packets of any type, handed to the transport."""
    publishes_received: int = 0
    """PUBLISH packets among those received, refused ones included."""
    publishes_sent: int = 0
    """PUBLISH packets among those sent, resent ones included."""
    bytes_received: int = 0
    """Of MQTT, without TLS, TCP and WebSocket framing."""
    bytes_sent: int = 0
    """Of MQTT, without TLS, TCP and WebSocket framing."""
    sockets_opened: int = 0
    """Network connections taken, with or without a CONNECT."""
    connects: int = 0
    """CONNECTs accepted."""
    connections_max_seen: int = 0
    """Most network connections open at once."""
    connects_refused: Counter[str] = field(default_factory=Counter)
    """Network connections and CONNECTs refused, by reason."""
    publishes_refused: Counter[str] = field(default_factory=Counter)
    """PUBLISHes refused (no right, no room, over a bound), by reason."""
    subscribes_refused: Counter[str] = field(default_factory=Counter)
    """Topic filters refused, by reason."""
    closed: Counter[str] = field(default_factory=Counter)
    """Connections with an accepted CONNECT that ended, by reason."""
