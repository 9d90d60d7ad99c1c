"""What a load asks for and what it found; these values cross to the clients' process as JSON."""

from dataclasses import dataclass
from typing import Literal, NamedTuple


class Broker(NamedTuple):
    """Where a broker listens, and its process."""

    host: str
    port: int
    pid: int


@dataclass(frozen=True, slots=True)
class Load:
    """One run against one broker."""

    kind: Literal["throughput", "latency", "slow-reader", "idle"]
    payload_bytes: int = 1_024
    publishers: int = 1
    """Connections that publish, or that idle."""
    consumers: int = 1
    """Over one: members of one share group."""
    session_expiry_s: int = 0
    """Of the subscriber; over 0 its session is durable."""
    window: int = 20
    """Unacknowledged messages of each publisher."""
    measured_s: float = 1.5
    per_second: int = 300
    """Messages a second of an open loop."""
    messages: int = 0
    """Each publisher sends so many, where the load ends by count."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a run found; what a load does not measure stays 0."""

    per_second: float = 0.0
    """Messages delivered to subscribers."""
    broker_cpu_us: float = 0.0
    """Per message delivered."""
    client_cpu_us: float = 0.0
    """The same of the clients' process: what this load generator costs."""
    refused: int = 0
    """PUBACK with an error."""
    lost: int = 0
    """Acknowledged with success and not delivered."""
    by_consumer: tuple[int, ...] = ()
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    peak_mb: float = 0.0
    connected: int = 0
    answered: int = 0
    """Those of them that answered a ping."""
    kb_per_connection: float = 0.0
    seconds: float = 0.0
    """That the whole took."""
