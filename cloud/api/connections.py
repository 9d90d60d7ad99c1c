"""Connections of one server: their number, their slow heads and their stalled readers, bounded.

`Guarded` stands between the socket and a protocol that knows none of these bounds (aiohttp's).
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import cast

from cloud.api.metrics import ApiMetrics
from cloud.api.places import Places
from cloud.api.problems import Problem
from cloud.api.settings import Listening


def _last_words(status: HTTPStatus, kind: str, detail: str) -> bytes:
    """A whole response for a connection that no protocol answers any more."""
    problem = Problem(status, kind, detail, 1.0)
    body = problem.body("")
    fields = tuple(f"{name}: {value}" for name, value in problem.headers.items())
    lines = (
        f"HTTP/1.1 {status.value} {status.phrase}", *fields,
        "Connection: close", f"Content-Length: {len(body)}", "", "",
    )  # fmt: skip
    return "\r\n".join(lines).encode() + body


NO_ROOM = _last_words(
    HTTPStatus.SERVICE_UNAVAILABLE, "too-many-connections",
    "too many open connections; come again in a second, or keep fewer open",
)  # fmt: skip
SLOW_HEAD = _last_words(
    HTTPStatus.REQUEST_TIMEOUT, "slow-head",
    "the request's head did not arrive in time; send it at once",
)  # fmt: skip


class Connections:
    """All of one server's, by their transports; both lanes tell it what they do with them."""

    def __init__(self, limits: Listening, metrics: ApiMetrics) -> None:
        self.limits, self.metrics = limits, metrics
        self._places = Places[asyncio.BaseTransport](limits.connections_max, limits.idle_grace_s)
        self._heads: dict[asyncio.BaseTransport, asyncio.TimerHandle] = {}  # not whole yet
        self._bodies: set[asyncio.BaseTransport] = set()  # not whole yet; who sends them may go
        self._quiet: asyncio.Event | None = None  # who waits for the last answer
        self.closing = False
        """From now on each answer is its connection's last."""
        metrics.connections.set_function(lambda: len(self._places))

    def __len__(self) -> int:
        return len(self._places)

    def opened(self, transport: asyncio.Transport) -> bool:
        """Whether there is room. If not, the client is told and the connection closed."""
        taken = self._places.take(transport, time.monotonic())
        if taken is None:
            self.metrics.refused_for_room.inc()
            transport.write(NO_ROOM)
            transport.close()
            return False
        if taken.instead_of is not None:
            self.metrics.closed_for_room.inc()
            last_words = NO_ROOM if taken.instead_of in self._bodies else b""
            _hang_up(cast("asyncio.Transport", taken.instead_of), last_words)
        return True

    def closed(self, transport: asyncio.BaseTransport) -> None:
        self._places.leave(transport)
        self._head_is_whole(transport)
        self._look_if_quiet()

    def receiving(self, transport: asyncio.Transport) -> None:
        """Bytes have come; on an idle connection they begin a head, which has its time."""
        works = self._places.works(transport) or transport in self._bodies
        if transport not in self._heads and not works:
            self._heads[transport] = asyncio.get_running_loop().call_later(
                self.limits.head_s_max, self._head_is_late, transport
            )

    def busy(self, transport: asyncio.BaseTransport) -> None:
        """A whole head has come: until `idle` this connection does not go to make room."""
        self._head_is_whole(transport)
        self._places.start_work(transport)

    def idle(self, transport: asyncio.BaseTransport) -> None:
        self._places.end_work(transport, time.monotonic())
        if self._quiet is not None:
            self._look_if_quiet()

    async def until_quiet(self) -> None:
        """Wait until no request is in hand."""
        self._quiet = asyncio.Event()
        self._look_if_quiet()
        await self._quiet.wait()

    def _look_if_quiet(self) -> None:
        if self._quiet is not None and not self._places.at_work and not self._bodies:
            self._quiet.set()

    @contextmanager
    def at_work(self, transport: asyncio.BaseTransport | None) -> Iterator[None]:
        if transport is None:  # the client has left
            yield
            return
        self.busy(transport)
        try:
            yield
        finally:
            self.idle(transport)

    @contextmanager
    def awaiting_body(self, transport: asyncio.BaseTransport | None) -> Iterator[None]:
        """Within `at_work`: a client who sends slowly goes to make room, as one who is idle does."""
        if transport is None or not self._places.works(transport):
            yield
            return
        self._bodies.add(transport)
        self._places.end_work(transport, time.monotonic())
        try:
            yield
        finally:
            self._bodies.discard(transport)
            self._places.start_work(transport)  # unless it has gone

    def _head_is_whole(self, transport: asyncio.BaseTransport) -> None:
        timer = self._heads.pop(transport, None)
        if timer is not None:
            timer.cancel()

    def _head_is_late(self, transport: asyncio.Transport) -> None:
        del self._heads[transport]
        self.metrics.slow_head.inc()
        _hang_up(transport, SLOW_HEAD)

    def guarding(self, make: Callable[[], asyncio.Protocol]) -> Callable[[], asyncio.Protocol]:
        """A protocol factory whose protocols keep the bounds."""
        return lambda: Guarded(make(), self)


class Guarded(asyncio.Protocol):
    """Passes everything on to `inner`, and holds the client to its times."""

    def __init__(self, inner: asyncio.Protocol, connections: Connections) -> None:
        self._inner, self._connections = inner, connections
        self._transport: asyncio.Transport | None = None
        self._stall: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast("asyncio.Transport", transport)
        if self._connections.opened(transport):
            self._transport = transport
            self._inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_stall()
        if self._transport is not None:
            self._connections.closed(self._transport)
            self._transport = None
            self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._transport is not None:
            self._connections.receiving(self._transport)
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received() if self._transport is not None else None

    def pause_writing(self) -> None:
        within_s = self._connections.limits.stall_s_max
        self._stall = asyncio.get_running_loop().call_later(within_s, self._reader_is_stalled)
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._cancel_stall()
        self._inner.resume_writing()

    def _cancel_stall(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def _reader_is_stalled(self) -> None:
        if self._transport is not None:
            self._connections.metrics.stalled.inc()
            self._transport.abort()


def _hang_up(transport: asyncio.Transport, last_words: bytes = b"") -> None:
    if transport.get_write_buffer_size():  # its reader takes nothing: a clean end would wait for it
        transport.abort()
        return
    transport.write(last_words)
    transport.close()
