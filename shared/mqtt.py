"""paho-mqtt on the event loop: one link that connects, stays connected, and counts.

No thread: the loop watches paho's socket, so a message reaches its handler without a hop. paho
never queues here: `publish` refuses when the link is down or its window is full, because the
outbox is the queue (FINDINGS 2 lists what paho does with its own).
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from shared.errors import Unavailable


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


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message that came in; `ack` it when it has been applied, never before."""

    topic: str
    payload: bytes
    ack: Callable[[], None]


class Link:
    def __init__(
        self,
        settings: LinkSettings,
        *,
        subscriptions: tuple[str, ...],
        on_delivery: Callable[[Delivery], None],
        on_up: Callable[[bool], None],
        on_down: Callable[[], None],
        will: Will | None = None,
    ) -> None:
        """Handlers run on the event loop; `on_up` gets whether the broker kept our session."""
        raise Unavailable("being written")

    @property
    def up(self) -> bool: ...

    @property
    def room(self) -> int:
        """How many more publishes the window takes now; 0 while the link is down."""
        ...

    def publish(
        self, topic: str, payload: bytes, *, expiry_s: int | None = None, retain: bool = False
    ) -> "asyncio.Future[int]":
        """QoS 1; the future holds PUBACK's reason code (0x10: nobody subscribes).

        The future fails with `Disconnected` when the link is lost before PUBACK. Raises
        `Disconnected` while the link is down and `Overloaded` when the window is full.
        """
        ...

    async def run(self) -> None:
        """Connect and reconnect (full-jitter backoff) until `drain`; then disconnect cleanly."""
        ...

    def drain(self) -> None: ...
