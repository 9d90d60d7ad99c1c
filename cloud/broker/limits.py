"""Every bound of the embedded broker, in one frozen value."""

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
    packet_bytes_max: int = 1_048_576
    """Largest packet taken; payloads over 128 KB travel by HTTP reference anyway."""
    sessions_max: int = 20_000
    """Sessions kept, with or without a connection."""
    session_expiry_s_max: int = 7 * 24 * 3600
    """Longest that a session outlives its connection, and how long a 3.1.1 one does."""
    subscriptions_max: int = 1_000
    """Topic filters of one session."""
    inflight_max: int = 1_024
    """Unacknowledged QoS>0 messages towards one client, or its Receive Maximum if lower."""
    receive_maximum: int = 1_024
    """QoS 2 messages a client may have open towards us (3.2.2.3.3)."""
    topic_alias_maximum: int = 32
    """Topic aliases a client may set (3.2.2.3.8)."""
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
            if getattr(self, field.name) <= 0:
                raise ValueError(f"{field.name} must be over 0")
        if self.packet_bytes_max > min(self.queued_bytes_max, self.queued_bytes_max_total):
            raise ValueError(
                "packet_bytes_max must fit queued_bytes_max and queued_bytes_max_total"
            )
        if max(self.inflight_max, self.receive_maximum, self.topic_alias_maximum) > 65_535:
            raise ValueError("inflight_max, receive_maximum, topic_alias_maximum: 65535 at most")
