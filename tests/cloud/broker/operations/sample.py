"""A router with sessions in it, and what else an operator's view is made of."""

from collections import Counter
from dataclasses import dataclass

from cloud.broker.access.identity import Identity
from cloud.broker.codec.packets import Subscription
from cloud.broker.limits import Limits
from cloud.broker.operations.counts import Counts
from cloud.broker.operations.overview import Overview
from cloud.broker.operations.status import Presence, Status, Tally, status_of
from cloud.broker.router.router import Router
from cloud.broker.session.inflight import Link
from cloud.broker.session.messages import Message
from cloud.broker.session.session import Session


class Wire:
    """A connection that takes nothing unless told."""

    def __init__(self, address: str, since: float) -> None:
        self.presence = Presence(address, since)

    def wake(self) -> None:
        """Tests take when they like."""

    def take_over(self, now: float) -> None:
        raise AssertionError(f"taken over at {now}")


@dataclass(frozen=True)
class Figures:
    """What a store says about itself."""

    commits: int = 7
    rows: int = 70
    is_failing: bool = False
    last_commit_ms: float | None = 2.5


def locate(link: Link) -> Presence | None:
    assert isinstance(link, Wire)
    return link.presence


def join(
    router: Router, client_id: str, *filters: str, now: float = 0, expiry_s: float = 0,
    username: str | None = None,
) -> Session:  # fmt: skip
    wire = Wire(f"10.0.0.1:{len(router.sessions)}", now)
    identity = Identity(client_id, username)
    session, _ = router.open(identity, wire, now, clean=False, expiry_s=expiry_s, window=1)
    for one in filters:
        router.subscribing.subscribe(session, Subscription(one, 1), 0, now)
    return session


def busy_router() -> Router:
    """Two connected sessions and one offline; messages queued, in flight, retained, dropped."""
    router = Router(Limits(queued_bytes_max=1_000, packet_bytes_max=1_000), lambda: "made-up")
    reader = join(router, "reader", "t", "u", now=1, expiry_s=60, username="anna")
    join(router, "idle", now=2)
    away = join(router, "away", "t", now=3, expiry_s=100)
    router.close(away, 10, publish_will=False)
    for size in (10, 20, 900):
        router.publish(Message("t", bytes(size), 1), 11)
    router.publish(Message("kept", b"12345", 1, retain=True), 11)
    router.publish(Message("t", b"", 0), 11)  # nothing offline is sent QoS 0
    assert len(reader.take(11, 1 << 20)) == 2
    return router


def busy_counts() -> Counts:
    return Counts(
        messages_received=10, messages_sent=20, publishes_received=5, publishes_sent=6,
        bytes_received=1_000, bytes_sent=2_000, sockets_opened=4, connects=3,
        connections_max_seen=3, connects_refused=Counter(NOT_AUTHORIZED=2),
        publishes_refused=Counter(QUOTA_EXCEEDED=1), subscribes_refused=Counter(NOT_AUTHORIZED=4),
        closed=Counter(CLIENT_LEFT=1, KEEP_ALIVE_TIMEOUT=1),
    )  # fmt: skip


def busy_status(store: Figures | None = None, now: float = 40) -> Status:
    router = busy_router()
    tally = Tally()
    tally.add(router.sessions.values())
    return status_of(
        router, tally, busy_counts(), store, connections=3, started_at=0, now=now, version="1.2.3"
    )


def overview(router: Router, *, store: Figures | None = None) -> Overview:
    """Over a router whose clock stands at 40 s; a kick closes or ends the session at once."""

    async def kick(client_id: str, *, forget: bool) -> bool:
        session = router.sessions.get(client_id)
        if session is None:
            return False
        if forget:
            session.expiry_s = 0
        router.close(session, 40, publish_will=False)
        return True

    return Overview(
        router, busy_counts(), locate, connections=lambda: 3, clock=lambda: 40.0, started_at=0,
        kicker=kick, store=store,
    )  # fmt: skip
