"""One network connection: a socket on one side, a `Connection` on the other."""

import asyncio
import socket
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol, cast

from cloud.broker.access.revocations import CertificateId
from cloud.broker.codec import packets as p
from cloud.broker.codec.parser import Parser
from cloud.broker.codec.reasons import BrokenRule, ReasonCode
from cloud.broker.connection.connection import Connection
from cloud.broker.limits import Limits
from cloud.broker.operations.counts import CONNECTION_LIMIT, Counts
from cloud.broker.router.router import Router
from cloud.broker.shell.door import Door, House
from cloud.broker.shell.tls import certificate_id, common_name

JOINED_BYTES_MAX: Final = 8_192
"""Mean chunk up to which copying chunks together is cheaper than handing each to the kernel."""
TURN_S: Final = 0.005
"""For one connection's packets before all others get a turn: a packet may take milliseconds."""
SHOWN_CHARACTERS: Final = 80
"""Of what a stranger calls itself, in a log."""
LINGER_S: Final = 1.0
"""For a client to read why it is closed, and close itself."""


class Owner(House, Protocol):
    """What a peer needs of its server."""

    limits: Limits
    router: Router
    counts: Counts
    peers: "set[Peer]"

    def wake(self, peer: "Peer") -> None:
        """Flush this peer at the end of this turn of the loop."""

    def forget(self, peer: "Peer") -> None:
        """Note that a peer is gone."""

    def warn(
        self, event: str, kind: str, why: str, who: Mapping[str, str | None] | None = None
    ) -> None:
        """Log what a client did."""


class Peer(asyncio.Protocol):
    """From `connection_made` to `connection_lost`; also over WebSockets, with their transport."""

    def __init__(self, server: Owner, *, owner_only: bool = False) -> None:
        """Wait for the transport; `owner_only`: let nobody in but who launched the broker."""
        self._owner_only = owner_only
        self._server = server
        self._limits = server.limits
        self._loop = server.loop
        self._counts = server.counts
        self._parser = Parser(server.limits.packet_bytes_max)
        self.connection = Connection(server.router, self._wake, server.counts)
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._packet_timer: asyncio.TimerHandle | None = None
        self._last_heard_at = 0.0
        self._packet_began_at = 0.0
        self._door: Door | None = None
        self._is_granted = False
        self._is_dirty = False
        self._is_paused = False
        self._is_deaf = False
        self._is_parting = False
        self._is_reading_stopped = False
        self._work: Iterator[p.Packet] | None = None
        """What was read and not acted on yet, because others came first."""
        self._unread: deque[bytes] = deque()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the time a CONNECT may take, unless there are too many connections."""
        self._transport = cast("asyncio.Transport", transport)
        server, counts = self._server, self._counts
        counts.sockets_opened += 1
        if len(server.peers) >= self._limits.connections_max:
            counts.connects_refused[CONNECTION_LIMIT] += 1
            words = f"{self._limits.connections_max} connections are open, which is the limit"
            server.warn("connection_refused", "limit", words)
            self._transport.abort()
            return
        server.peers.add(self)
        counts.connections_max_seen = max(counts.connections_max_seen, len(server.peers))
        self._transport.set_write_buffer_limits(high=self._limits.write_buffer_bytes)
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        address = transport.get_extra_info("peername")
        host = str(address[0]) if address else ""
        self._door = Door(
            server, self.connection, host=host, owner_only=self._owner_only,
            on_checked=self._on_checked,
            certificate_name=common_name(transport.get_extra_info("peercert")),
            certificate=certificate_id(transport.get_extra_info("ssl_object")),
        )  # fmt: skip
        self.connection.address = f"{host}:{address[1]}" if address else ""
        self.connection.since = self._last_heard_at = self._loop.time()
        self._timer = self._loop.call_later(self._limits.connect_timeout_s, self._check)

    def data_received(self, data: bytes) -> None:
        """Act on every whole packet that came, and let others have their turn in between."""
        if self.connection.is_closing:
            return
        self._last_heard_at = self._loop.time()
        self._counts.bytes_received += len(data)
        if self._work is not None:
            self._unread.append(data)
            return
        self._work = self._parser.feed(data)
        self._act()

    def _act(self) -> None:
        """Go on with what was read; after `TURN_S` the others come first."""
        connection, work, now = self.connection, self._work, self._loop.time()
        if work is None or connection.is_closing:
            return
        count, due_at = 0, time.monotonic() + TURN_S
        try:
            for packet in work:
                count += 1
                if self._is_granted:
                    connection.receive(packet, now)
                else:
                    self._come_in(packet, now)
                if connection.is_closing:
                    break
                if time.monotonic() > due_at:
                    self._counts.messages_received += count
                    self._stop_reading()
                    self._loop.call_soon(self._act)
                    self._wake()
                    return
        except BrokenRule as error:
            self._fail(error, now)
        self._counts.messages_received += count
        self._work = None
        self._time_packet(now, is_new=count > 0)
        if self._unread and not connection.is_closing:
            self._work = self._parser.feed(self._unread.popleft())
            self._loop.call_soon(self._act)
        else:
            self._read_on()
        self._wake()

    def _time_packet(self, now: float, *, is_new: bool) -> None:
        """Start, or stop, the time that the rest of a packet may take."""
        if not self._parser.held_bytes:
            self._packet_began_at = 0.0
            return
        if is_new or not self._packet_began_at:
            self._packet_began_at = now
        if self._packet_timer is None:
            at = now + self._limits.packet_timeout_s
            self._packet_timer = self._loop.call_at(at, self._check_packet)

    def _stop_reading(self) -> None:
        if self._transport is not None and not self._is_reading_stopped:
            self._is_reading_stopped = True
            self._transport.pause_reading()

    def _read_on(self) -> None:
        """Read again, unless something else is in the way."""
        if not self._is_reading_stopped or self._is_deaf:
            return
        if self._door is not None and self._door.is_checking:
            return
        if self._work is None and self._transport is not None:
            self._is_reading_stopped = False
            if not self._transport.is_closing():
                self._transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let the session and the will know."""
        del exc
        for timer in (self._timer, self._packet_timer):
            if timer is not None:
                timer.cancel()
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
        if not self._is_paused or connection.is_closing:
            chunks = connection.collect(now, self._limits.write_buffer_bytes)
            if chunks:
                self._counts.bytes_sent += _write(transport, chunks)
        if connection.is_closing:
            self._part(transport)
            return
        if connection.is_behind is not self._is_deaf:
            self._is_deaf = not self._is_deaf
            if self._is_deaf:
                self._stop_reading()
            else:
                self._read_on()
        if not self._is_paused and connection.has_more:
            self._wake()

    def _part(self, transport: asyncio.Transport) -> None:
        """Close. A client that was told why is given time to read it.

        A socket closed with bytes unread is reset, and a reset takes what the client had not read.
        """
        if not self.connection.said_why:
            transport.close()
            self._rearm(self._loop.call_later(self._limits.connect_timeout_s, self.abort))
        elif not self._is_parting:
            self._is_parting = True
            if transport.can_write_eof():
                transport.write_eof()
                transport.resume_reading()  # to throw it away
                self._rearm(self._loop.call_later(LINGER_S, self.abort))
            else:
                transport.close()
                self._rearm(self._loop.call_later(self._limits.connect_timeout_s, self.abort))

    def _come_in(self, packet: p.Packet, now: float) -> None:
        if self._door is None:
            return
        self._door.receive(packet, now)
        if self._door.is_checking:
            self._stop_reading()
        else:
            self._note_granted()

    def _on_checked(self, wrong: BrokenRule | None) -> None:
        """A password was checked, and what came meanwhile acted on."""
        self._note_granted()
        if wrong is not None:
            self._fail(wrong, self._loop.time())
        self._read_on()
        self._wake()

    def _note_granted(self) -> None:
        if not self._is_granted and self.connection.granted is not None:
            self._is_granted = True
            self._check()

    @property
    def certificate_name(self) -> str | None:
        """Whom the client's certificate names; None without one."""
        return self._door.certificate_name if self._door is not None else None

    @property
    def certificate(self) -> CertificateId | None:
        """Which one that is."""
        return self._door.certificate if self._door is not None else None

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

    def _check_packet(self) -> None:
        """Close what trickles one packet for too long."""
        self._packet_timer = None
        if not self._packet_began_at or self.connection.is_closing:
            return
        now = self._loop.time()
        due_at = self._packet_began_at + self._limits.packet_timeout_s
        if now < due_at:
            self._packet_timer = self._loop.call_at(due_at, self._check_packet)
        else:
            self._fail(BrokenRule(ReasonCode.KEEP_ALIVE_TIMEOUT, "a packet took too long"), now)

    def _who(self) -> dict[str, str | None]:
        """For the log: whom we know, or who it said it was."""
        admission, asked = self.connection.admission, self._door.asked if self._door else None
        if admission is not None:
            identity = admission.identity
            who = {"client_id": identity.client_id, "username": identity.username}
        elif asked is not None:
            name = asked.username[:SHOWN_CHARACTERS] if asked.username is not None else None
            who = {"asked_as": asked.client_id[:SHOWN_CHARACTERS], "asked_by": name}
        else:
            who = {}
        return {**who, "address": self.connection.address}

    def _rearm(self, timer: asyncio.TimerHandle | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = timer

    def _fail(self, error: BrokenRule, now: float) -> None:
        self._server.warn("connection_closed", error.reason.name, str(error), self._who())
        self.connection.fail(error, now)
        self._wake()


def _write(transport: asyncio.Transport, chunks: Sequence[bytes]) -> int:
    """Write chunks: small ones as one piece, big payloads without copying them again.

    Gives the bytes written.
    """
    if len(chunks) == 1:
        transport.write(chunks[0])
        return len(chunks[0])
    size = sum(map(len, chunks))
    if size > JOINED_BYTES_MAX * len(chunks):
        transport.writelines(chunks)
    else:
        transport.write(b"".join(chunks))
    return size
