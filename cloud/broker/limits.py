"""Every bound of the embedded broker, in one frozen value."""

import math
from dataclasses import dataclass, fields
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds; each is also an option of `python -m cloud.broker` (underscores become dashes)."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}
    """Read by pydantic where bounds stand in a settings tree: an unknown name is an error."""

    connections_max: int = 10_000
    """Open connections, with or without a CONNECT; one more is closed at once."""
    connect_timeout_s: float = 10.0
    """From the connection to a whole CONNECT; a slow link needs one round trip and TLS."""
    packet_timeout_s: float = 30.0
    """From a packet's first byte to its last; a slow link sends the largest packet in this time,
    a peer that trickles bytes to hold memory does not."""
    connects_per_s_max: float = 1_000.0
    """CONNECTs judged, over all clients; more in a second are told 0x9F and come back later."""
    subscribes_per_s_max: float = 1_000.0
    """Topic filters of one connection; the rest of a burst is refused with 0x97."""
    keep_alive_s_max: int = 3_600
    """Longest silence of a 5.0 client, told as Server Keep Alive (3.2.2.3.14): a client that is
    gone without a word is noticed within 1.5 times that."""
    packet_bytes_max: int = 1_048_576
    """Largest packet taken; payloads over 128 KB travel by HTTP reference anyway."""
    sessions_max: int = 20_000
    """Sessions kept, with or without a connection."""
    session_expiry_s_max: int = 7 * 24 * 3600
    """Longest that a session outlives its connection, and how long a 3.1.1 one does."""
    subscriptions_max: int = 1_000
    """Topic filters of one session."""
    subscription_nodes_max: int = 100_000
    """Levels of all filters together, those that begin alike counted once: 30 MB, and 40 ms for
    the worst topic against the worst filters. A fleet of 10,000 devices has 30,000."""
    topic_levels_max: int = 16
    """Levels of a topic name or filter; our own have seven."""
    inflight_max: int = 1_024
    """Unacknowledged QoS>0 messages towards one client, or its Receive Maximum if lower."""
    receive_maximum: int = 1_024
    """QoS>0 messages a client may have open towards us (3.2.2.3.3)."""
    topic_alias_maximum: int = 32
    """Topic aliases a client may set (3.2.2.3.8)."""
    topic_aliases_sent_max: int = 32
    """Topic aliases we set for one client, if it takes as many (3.1.2.11.5)."""
    queued_bytes_max: int = 64 * 1_048_576
    """Bytes waiting for one session, unacknowledged ones included; what does not fit is dropped."""
    queued_bytes_max_total: int = 512 * 1_048_576
    """The same over all sessions; a message counts once for each session it waits for."""
    retained_max: int = 10_000
    """Retained messages."""
    retained_bytes_max: int = 64 * 1_048_576
    """Bytes of retained messages."""
    write_buffer_bytes: int = 262_144
    """Bytes handed to the kernel's side of one connection before its queue has to wait."""
    control_bytes_max: int = 1_048_576
    """Acknowledgements waiting for a peer that does not read, before we stop reading it."""

    def __post_init__(self) -> None:
        """Refuse bounds that contradict each other."""
        for field in fields(self):
            value = getattr(self, field.name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{field.name} must be over 0, and finite")
        if self.packet_bytes_max > min(self.queued_bytes_max, self.queued_bytes_max_total):
            raise ValueError(
                "packet_bytes_max must fit queued_bytes_max and queued_bytes_max_total"
            )
        for name in (
            "inflight_max", "receive_maximum", "topic_alias_maximum", "keep_alive_s_max",
        ):  # fmt: skip
            if getattr(self, name) > 65_535:
                raise ValueError(f"{name}: 65535 at most, as two bytes carry it")
