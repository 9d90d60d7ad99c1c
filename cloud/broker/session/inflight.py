"""The small values of what a client is owed: bounds, what is in flight, what to send. Pure."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Final, Protocol

from cloud.broker.session.messages import Delivery, Promise

PACKET_ID_MAX = 65_535


class Link(Protocol):
    """The network connection a session is attached to."""

    def wake(self) -> None:
        """Ask for `Session.take` to be called soon."""

    def take_over(self, now: float) -> None:
        """Close: the client has connected again elsewhere (3.1.4-3)."""


@dataclass(slots=True)
class Budget:
    """Bytes waiting in all sessions together."""

    bytes_max: int
    used_bytes: int = 0


@dataclass(slots=True)
class Inflight:
    """A QoS>0 message sent and not yet acknowledged; no delivery: PUBREL sent, PUBCOMP due."""

    delivery: Delivery | None
    is_sent: bool = True
    """On the present connection."""
    is_first: bool = False
    """Not sent on any connection yet."""
    promise: Promise | None = None
    """What the first sending waits for."""
    row_id: int = 0
    """Its row in the store once the delivery is gone."""


Send = tuple[Delivery | None, int, bool]
"""A PUBLISH to send, its packet id (0 for QoS 0) and DUP; without delivery: a PUBREL."""

Retrieval = Generator[Delivery | None, float, None]
"""Gives retained messages for a subscription when sent the time; None: look again later."""
RETRIEVED_BYTES_MAX: Final = 1 << 20
"""Waiting for a client before more retained messages are looked up for it."""
RETRIEVED_AT_ONCE: Final = 64
"""Retained messages, or slices of a search, in one turn of the event loop: some 2 ms."""
