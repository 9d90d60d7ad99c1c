"""All connections of one broker process: listeners, the clock, and one flush per loop turn.

Everything is decided in `connection` and `router`. A peer reads (many packets from one buffer);
here is gathered who has something to write, and each writes once per turn of the event loop. A
connection whose socket is full (`pause_writing`) keeps its messages in its session's bounded queue.
"""

import asyncio
import logging
import math
import secrets
import ssl
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from cloud.broker.access.gate import Gate
from cloud.broker.access.identity import Identity
from cloud.broker.access.rules import OPEN
from cloud.broker.codec.reasons import ReasonCode
from cloud.broker.connection.connection import Connection
from cloud.broker.limits import Limits
from cloud.broker.operations.counts import Counts
from cloud.broker.operations.overview import Overview
from cloud.broker.operations.status import Presence, StoreFigures
from cloud.broker.router.router import Router
from cloud.broker.session.changes import Changes
from cloud.broker.session.inflight import Link
from cloud.broker.session.records import Snapshot
from cloud.broker.session.restore import last_id, restored
from cloud.broker.shell.peer import Peer
from shared.logs import OncePer
from shared.token_bucket import TokenBucket

log = logging.getLogger(__name__)

_LOG_PERIOD_S: Final = 60.0
BACKLOG: Final = 1_024
"""Connections the kernel holds while a whole fleet comes back at once."""
ON_DISK_S_MAX: Final = 2.0
"""For an operator to hear that what was asked is on disk."""
HASHING_THREADS: Final = 2


def open_gate() -> Gate:
    """Let everybody in."""
    return Gate(None, None, allow_anonymous=True, owner=None, new_client_id=new_client_id)


def new_client_id() -> str:
    """Name a client that comes without a name (3.1.3.1)."""
    return f"auto-{secrets.token_hex(10)}"


class Server:
    """On one event loop. With a `snapshot` of a store, what changes is gathered in `changes`."""

    def __init__(
        self,
        limits: Limits,
        gate: Gate | None = None,
        snapshot: Snapshot | None = None,
        *,
        wall_now: float = 0.0,
    ) -> None:
        """Set up a broker on the running loop; `wall_now` is the time in Unix seconds."""
        self.limits = limits
        self.loop = asyncio.get_running_loop()
        self.gate = gate or open_gate()
        self.changes = Changes(last_id(snapshot)) if snapshot is not None else None
        self.router = Router(limits, new_client_id, self.changes)
        self.counts = Counts()
        self.connects = TokenBucket(limits.connects_per_s_max, max(1, limits.connects_per_s_max))
        self.hashing = ThreadPoolExecutor(HASHING_THREADS, "broker_hashing")
        self.checks: Counter[str] = Counter()
        self.peers: set[Peer] = set()
        self.on_pending: Callable[[], None] | None = None
        """Called when `changes` has something for the store."""
        self.started_at = self.loop.time()
        self.listeners: list[asyncio.Server] = []
        """What `drain` closes: TCP here, WebSockets elsewhere."""
        self._dirty: list[Peer] = []
        self._expiry: asyncio.Handle | None = None
        self._expiry_at = math.inf
        self._gone = asyncio.Event()
        self._once = OncePer(_LOG_PERIOD_S)
        if snapshot is not None and self.changes is not None:
            now = self.started_at
            found = restored(snapshot, self.changes, limits, self.router.budget, now, wall_now)
            self.router.adopt(found.sessions, found.retained, now)
            self._judge_sessions(now)
            self._arm()

    async def listen(
        self,
        host: str,
        port: int,
        tls: ssl.SSLContext | None = None,
        *,
        owner_only: bool = False,
    ) -> tuple[str, int]:
        """Start to take connections; gives the address bound. Raises OSError if it is taken.

        `owner_only`: for the process that launched the broker, and for nobody else.
        """
        timeout_s = self.limits.connect_timeout_s if tls is not None else None
        listener = await self.loop.create_server(
            lambda: Peer(self, owner_only=owner_only), host, port, ssl=tls, backlog=BACKLOG,
            ssl_handshake_timeout=timeout_s,
        )  # fmt: skip
        self.listeners.append(listener)
        bound: tuple[str, int] = listener.sockets[0].getsockname()[:2]
        return bound

    async def drain(self, timeout_s: float = 2.0) -> None:
        """Take no more connections, say good-bye (0x8B) to every client, and close.

        What was acknowledged to nobody yet waits for its place on disk first, so that a client
        that was answered need not send again.
        """
        for listener in self.listeners:
            listener.close()
        await self._all_on_disk(timeout_s)
        now = self.loop.time()
        for peer in list(self.peers):
            peer.connection.shut_down(now)
        try:
            async with asyncio.timeout(timeout_s):
                while self.peers:
                    self._gone.clear()
                    await self._gone.wait()
        except TimeoutError:
            log.warning("clients_did_not_close", extra={"count": len(self.peers)})
            for peer in list(self.peers):
                peer.abort()
        if self._expiry is not None:
            self._expiry.cancel()
        self.hashing.shutdown(wait=False, cancel_futures=True)

    def overview(self, store: StoreFigures | None = None) -> Overview:
        """Give what operators see and do."""
        return Overview(
            self.router, self.counts, _presence, lambda: len(self.peers), self.loop.time,
            self.started_at, self.kick, store,
        )  # fmt: skip

    async def kick(self, client_id: str, *, forget: bool) -> bool:
        """Close a client's connection (0x98), and end its session if `forget`; False: no such.

        Returns when the store knows it, or does not answer in time.
        """
        session = self.router.sessions.get(client_id)
        if session is None:
            return False
        now = self.loop.time()
        if isinstance(session.link, Connection):
            session.link.kick(ReasonCode.ADMINISTRATIVE_ACTION, now)
        if forget:
            self.router.forget(client_id, now)
        self._after()
        await self._all_on_disk(ON_DISK_S_MAX)
        return True

    def admit_by(self, gate: Gate) -> None:
        """Go by rules read anew: who may no longer be here is closed, what may not be read ends."""
        before, self.gate = self.gate, gate
        now = self.loop.time()
        for peer in list(self.peers):
            connection, admission = peer.connection, peer.connection.admission
            if admission is None or connection.is_closing:
                continue
            identity = admission.identity
            if gate.keeps(identity, peer.certificate_name, before, peer.certificate):
                connection.judge_by(gate.rules_for(identity))
            else:
                connection.kick(ReasonCode.NOT_AUTHORIZED, now, publish_will=False)
        self._judge_sessions(now)
        self._after()

    def warn(
        self, event: str, kind: str, why: str, who: Mapping[str, str | None] | None = None
    ) -> None:
        """Log what a client did, one line of each kind in a while: a thousand may do the same."""
        held_back = self._once.admits(f"{event} {kind}", self.loop.time())
        if held_back is not None:
            more = {**(who or {}), "why": why, "more_since_last": held_back}
            log.warning(event, extra=more)

    def wake(self, peer: Peer) -> None:
        """Flush this peer at the end of this turn of the loop."""
        if not self._dirty:
            self.loop.call_soon(self._flush)
        self._dirty.append(peer)

    def forget(self, peer: Peer) -> None:
        """Note that a peer is gone."""
        self.peers.discard(peer)
        self._gone.set()

    def _judge_sessions(self, now: float) -> None:
        for session in list(self.router.sessions.values()):
            link = session.link
            if isinstance(link, Connection) and link.admission is not None:
                rules = link.admission.rules
            else:
                rules = self.gate.rules_for(Identity(session.client_id, session.username))
                if session.will is not None and not self.gate.may_return(session.username):
                    session.set_will(None)
                    session.note()
            if rules is not OPEN:
                self.router.subscribing.judge(session, rules, now)

    def _flush(self) -> None:
        dirty, self._dirty = self._dirty, []
        now = self.loop.time()
        for peer in dirty:
            try:
                peer.flush(now)
            except Exception:  # one connection's fault is not the others': they are flushed
                log.exception("peer_failed")
                peer.abort()
        self._after()

    def _after(self) -> None:
        """Have the store and the timer know what changed."""
        if self.changes is not None and self.on_pending is not None and not self.changes.is_empty:
            self.on_pending()
        self._arm()

    def _arm(self) -> None:
        due_at = self.router.due_at()
        if due_at is not None and due_at < self._expiry_at:
            if self._expiry is not None:
                self._expiry.cancel()
            # uvloop's handle for a time that has passed has no `when()`: it is kept here
            self._expiry_at = due_at
            self._expiry = self.loop.call_at(due_at, self._expire)

    def _expire(self) -> None:
        self._expiry, self._expiry_at = None, math.inf
        self.router.expire(self.loop.time() + 0.002)  # a timer may fire a clock tick early
        self._after()

    async def _all_on_disk(self, timeout_s: float) -> None:
        promise = self.changes.promise() if self.changes is not None else None
        if promise is None or promise.holds:
            return
        written = asyncio.Event()
        promise.call_when_held(written.set)
        try:
            async with asyncio.timeout(timeout_s):
                await written.wait()
                await asyncio.sleep(0)  # the acknowledgements that this allows are flushed
        except TimeoutError:
            log.warning("store_did_not_commit", extra={"after_s": timeout_s})


def _presence(link: Link) -> Presence | None:
    return Presence(link.address, link.since) if isinstance(link, Connection) else None
