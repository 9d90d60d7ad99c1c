"""The network side of the embedded broker: sockets, the clock, and one flush per loop turn.

Everything is decided in `connection` and `router`. This module reads (many packets from one
buffer), gathers who has something to write, and writes it once per turn of the event loop. A
connection whose socket is full (`pause_writing`) keeps its messages in its session's bounded queue.
"""

import asyncio
import logging
import secrets
import socket
import ssl
from collections.abc import Sequence
from typing import Final, cast

from cloud.broker.codec.parser import Parser
from cloud.broker.codec.reasons import BrokenRule, ReasonCode
from cloud.broker.connection.connection import Connection
from cloud.broker.limits import Limits
from cloud.broker.router.router import Router
from shared.logs import OncePer

log = logging.getLogger(__name__)

_LOG_PERIOD_S: Final = 60.0
JOINED_BYTES_MAX: Final = 8_192
"""Mean chunk up to which copying chunks together is cheaper than handing each to the kernel."""
BACKLOG: Final = 1_024
"""Connections the kernel holds while a whole fleet comes back at once."""


class Server:
    """All connections of one broker process, on one event loop."""

    def __init__(self, limits: Limits) -> None:
        """Set up an empty broker on the running loop."""
        self.limits = limits
        self.loop = asyncio.get_running_loop()
        self.router = Router(limits, lambda: f"auto-{secrets.token_hex(10)}")
        self.peers: set[Peer] = set()
        self._listener: asyncio.Server | None = None
        self._dirty: list[Peer] = []
        self._expiry: asyncio.TimerHandle | None = None
        self._gone = asyncio.Event()
        self._once = OncePer(_LOG_PERIOD_S)

    async def listen(
        self, host: str, port: int, tls: ssl.SSLContext | None = None
    ) -> tuple[str, int]:
        """Start to take connections; gives the address bound. Raises OSError if it is taken."""
        timeout_s = self.limits.connect_timeout_s if tls is not None else None
        self._listener = await self.loop.create_server(
            lambda: Peer(self), host, port, ssl=tls, backlog=BACKLOG,
            ssl_handshake_timeout=timeout_s,
        )  # fmt: skip
        bound: tuple[str, int] = self._listener.sockets[0].getsockname()[:2]
        return bound

    async def drain(self, timeout_s: float = 2.0) -> None:
        """Take no more connections, say good-bye (0x8B) to every client, and close."""
        if self._listener is not None:
            self._listener.close()
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

    def warn(self, event: str, kind: str, why: str, client_id: str | None = None) -> None:
        """Log what a client did, one line of each kind in a while: a thousand may do the same."""
        held_back = self._once.admits(f"{event} {kind}", self.loop.time())
        if held_back is not None:
            more = {"client_id": client_id, "why": why, "more_since_last": held_back}
            log.warning(event, extra=more)

    def wake(self, peer: "Peer") -> None:
        """Flush this peer at the end of this turn of the loop."""
        if not self._dirty:
            self.loop.call_soon(self._flush)
        self._dirty.append(peer)

    def forget(self, peer: "Peer") -> None:
        """Note that a peer is gone."""
        self.peers.discard(peer)
        self._gone.set()

    def _flush(self) -> None:
        dirty, self._dirty = self._dirty, []
        now = self.loop.time()
        for peer in dirty:
            peer.flush(now)
        due_at = self.router.due_at()
        if due_at is not None and (self._expiry is None or due_at < self._expiry.when()):
            if self._expiry is not None:
                self._expiry.cancel()
            self._expiry = self.loop.call_at(due_at, self._expire)

    def _expire(self) -> None:
        self._expiry = None
        self.router.expire(self.loop.time() + 0.002)  # a timer may fire a clock tick early
        due_at = self.router.due_at()
        if due_at is not None:
            self._expiry = self.loop.call_at(due_at, self._expire)


class Peer(asyncio.Protocol):
    """One network connection."""

    def __init__(self, server: Server) -> None:
        """Wait for the transport."""
        self._server = server
        self._limits = server.limits
        self._loop = server.loop
        self._parser = Parser(server.limits.packet_bytes_max)
        self.connection = Connection(server.router, self._wake)
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._last_heard_at = 0.0
        self._is_granted = False
        self._is_dirty = False
        self._is_paused = False
        self._is_deaf = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the time a CONNECT may take, unless there are too many connections."""
        self._transport = cast("asyncio.Transport", transport)
        if len(self._server.peers) >= self._limits.connections_max:
            words = f"{self._limits.connections_max} connections are open, which is the limit"
            self._server.warn("connection_refused", "limit", words)
            self._transport.abort()
            return
        self._server.peers.add(self)
        self._transport.set_write_buffer_limits(high=self._limits.write_buffer_bytes)
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._last_heard_at = self._loop.time()
        self._timer = self._loop.call_later(self._limits.connect_timeout_s, self._check)

    def data_received(self, data: bytes) -> None:
        """Act on every whole packet that came."""
        connection = self.connection
        if connection.is_closing:
            return
        now = self._last_heard_at = self._loop.time()
        try:
            for packet in self._parser.feed(data):
                connection.receive(packet, now)
                if connection.is_closing:
                    break
        except BrokenRule as error:
            self._fail(error, now)
        if not self._is_granted and connection.granted is not None:
            self._is_granted = True
            self._check()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let the session and the will know."""
        del exc
        if self._timer is not None:
            self._timer.cancel()
        if self in self._server.peers:
            self.connection.lost(self._loop.time())
            self._server.forget(self)

    def pause_writing(self) -> None:
        """Leave messages in the session's queue until the peer reads."""
        self._is_paused = True

    def resume_writing(self) -> None:
        """Go on where `pause_writing` stopped."""
        self._is_paused = False
        self._wake()

    def abort(self) -> None:
        """Close without waiting for the peer."""
        if self._transport is not None:
            self._transport.abort()

    def flush(self, now: float) -> None:
        """Write what is due, once."""
        self._is_dirty = False
        transport, connection = self._transport, self.connection
        if transport is None or transport.is_closing():
            return
        if self._is_paused and not connection.is_closing:
            if connection.control_bytes > self._limits.control_bytes_max and not self._is_deaf:
                self._is_deaf = True
                transport.pause_reading()
            return
        _write(transport, connection.collect(now, self._limits.write_buffer_bytes))
        if connection.is_closing:
            transport.close()
            self._rearm(self._loop.call_later(self._limits.connect_timeout_s, self.abort))
            return
        if self._is_deaf:
            self._is_deaf = False
            transport.resume_reading()
        if not self._is_paused and connection.has_more:
            self._wake()

    def _wake(self) -> None:
        if not self._is_dirty:
            self._is_dirty = True
            self._server.wake(self)

    def _check(self) -> None:
        """Close what has been silent too long: no CONNECT, or 1.5 x keep alive (3.1.2-22)."""
        now = self._loop.time()
        granted = self.connection.granted
        if self.connection.is_closing:
            return
        if granted is None:
            self._fail(BrokenRule(ReasonCode.PROTOCOL_ERROR, "no CONNECT in time"), now)
        elif granted.idle_s_max is not None:
            due_at = self._last_heard_at + granted.idle_s_max
            if now >= due_at:
                self._fail(BrokenRule(ReasonCode.KEEP_ALIVE_TIMEOUT, "nothing heard"), now)
            else:
                self._rearm(self._loop.call_at(due_at, self._check))
        else:
            self._rearm(None)

    def _rearm(self, timer: asyncio.TimerHandle | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = timer

    def _fail(self, error: BrokenRule, now: float) -> None:
        granted = self.connection.granted
        client_id = granted.client_id if granted is not None else None
        self._server.warn("connection_closed", error.reason.name, str(error), client_id)
        self.connection.fail(error, now)


def _write(transport: asyncio.Transport, chunks: Sequence[bytes]) -> None:
    """Write chunks: small ones as one piece, big payloads without copying them again."""
    if not chunks:
        return
    if len(chunks) == 1:
        transport.write(chunks[0])
    elif sum(map(len, chunks)) > JOINED_BYTES_MAX * len(chunks):
        transport.writelines(chunks)
    else:
        transport.write(b"".join(chunks))
