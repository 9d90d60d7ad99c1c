"""What a link is told: where the broker is, who we are, and the bounds it keeps to."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from shared.errors import Malformed


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


def broker_address(url: str) -> tuple[str, int, bool]:
    """Host, port and whether TLS is used, from `mqtt://host[:1883]` or `mqtts://host[:8883]`."""
    parts = urlsplit(url)
    if parts.scheme not in ("mqtt", "mqtts") or not parts.hostname:
        raise Malformed(f"broker url {url!r}: write mqtt://host:port or mqtts://host:port")
    try:
        port = parts.port
    except ValueError as error:
        raise Malformed(f"broker url {url!r}: {error}") from error
    tls = parts.scheme == "mqtts"
    return parts.hostname, port or (8883 if tls else 1883), tls
