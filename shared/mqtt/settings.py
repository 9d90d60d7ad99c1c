"""What a link is told: where the broker is, who we are, and the bounds it keeps to."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LinkSettings:
    host: str
    port: int
    client_id: str
    username: str | None = None
    password: str | None = None
    tls: bool = False
    tls_ca: str | None = None  # PEM file; the system's store when None
    tls_certificate: str | None = None
    tls_key: str | None = None
    keepalive_s: int = 30
    session_expiry_s: int = 3600
    window: int = 20  # publishes without PUBACK
    receive_max: int = 256  # deliveries that the broker may send before we acknowledge
    backoff_s_min: float = 0.2
    backoff_s_max: float = 30.0


@dataclass(frozen=True, slots=True)
class Will:
    topic: str
    payload: bytes
    retain: bool = True
