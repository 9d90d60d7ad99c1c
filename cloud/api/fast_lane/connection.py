"""One connection of the fast lane.

One request at a time: its answer goes out before the next one is looked at, so answers keep the
order of pipelined requests, and what a client sends ahead waits, bounded, in its socket.
"""

import asyncio
import time
from typing import TYPE_CHECKING, cast

from cloud.api.connections import SLOW_HEAD
from cloud.api.fast_lane.head import HEAD_BYTES_MAX, Head
from cloud.api.fast_lane.name import Name, named
from cloud.api.fast_lane.request import FastRequest

if TYPE_CHECKING:
    from cloud.api.fast_lane.lane import Lane

_INFER = b"POST /v2/models/"
_END = b"\r\n\r\n"
_JSON_BYTES_MAX = 8 * 1024  # of JSON to read on the event loop: half a ms; more goes to aiohttp
_PIECES_BYTES_MAX = 64 * 1024  # of a body that comes in pieces
_AHEAD_BYTES_MAX = 64 * 1024  # that a client may send before it has its answer


class Connection(asyncio.Protocol):
    __slots__ = (
        "_ahead", "_asked", "_at", "_began", "_head_is_whole", "_is_paused", "_lane", "_need",
        "_pieces", "_since", "_stall", "_transport", "address",
    )  # fmt: skip

    def __init__(self, lane: "Lane") -> None:
        self._lane = lane
        self._transport: asyncio.Transport | None = None
        self.address = ""  # of the other end
        self._asked: FastRequest | None = None  # waits for its answer
        self._pieces = bytearray()  # of a request that is not whole yet
        self._need = 0  # bytes it takes
        self._head_is_whole = False
        self._began = 0.0  # when its first byte came
        self._ahead = b""  # where what came before the answer to the request in hand had left
        self._at = 0  # begins; not cut off, as a thousand requests would be copied a thousand times
        self._is_paused = False  # nothing is read from the socket until less of that is left
        self._stall: asyncio.TimerHandle | None = None  # while the client takes no more answers
        self._since = 0.0  # of its last sign of life

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        lane, transport = self._lane, cast("asyncio.Transport", transport)
        if not lane.bounds.opened(transport):
            return
        self._transport, self._since = transport, time.monotonic()
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if peer else ""
        lane.connections.add(self)

    def connection_lost(self, _: Exception | None) -> None:
        transport = self._left()
        if transport is not None:
            self._lane.bounds.closed(transport)
        if self._asked is not None:
            self._asked.leave()

    def pause_writing(self) -> None:
        lane = self._lane
        self._stall = asyncio.get_running_loop().call_later(
            lane.settings.stall_s_max, self._reader_is_stalled
        )

    def resume_writing(self) -> None:
        self._end_stall()
        self._go_on()

    def data_received(self, data: bytes) -> None:
        if self._asked is not None or self._stall is not None or self._ahead:
            self._wait_with(data)
        elif not self._pieces:
            self._began = time.monotonic()
            self._look(data)
        else:
            self._pieces += data
            if len(self._pieces) >= self._need:
                whole = bytes(self._pieces)
                self._pieces.clear()
                self._look(whole)

    def tidy(self, now: float) -> None:
        """Called once a second: an unfinished request, or none, has its time."""
        lane, transport = self._lane, self._transport
        if self._asked is not None or transport is None:
            return
        if not self._pieces:
            if now - self._since > lane.settings.idle_s_max:
                transport.close()
        elif self._head_is_whole and now - self._began > lane.settings.body_s_max:
            self._pieces.clear()
            name = named(None, None)
            head, rest = lane.refusal(lane.slow_body(), name.request_id)
            self._respond(head, name, rest, last=True)
        elif not self._head_is_whole and now - self._began > lane.settings.head_s_max:
            lane.bounds.metrics.slow_head.inc()
            transport.write(SLOW_HEAD)
            transport.close()

    def close_if_idle(self) -> None:
        if self._asked is None and not self._pieces and self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def respond(self, head: bytes, name: Name, body: tuple[bytes | memoryview, ...]) -> None:
        """Answer the request in hand, `head` without the fields that every answer has.

        The next request may come. Nothing is done where the client has left.
        """
        self._asked = None
        if self._transport is not None:
            self._lane.bounds.idle(self._transport)
            self._respond(head, name, body, last=self._lane.closing)

    def _respond(
        self, head: bytes, name: Name, body: tuple[bytes | memoryview, ...], *, last: bool
    ) -> None:
        transport, lane = self._transport, self._lane
        if transport is None or transport.is_closing():
            return
        end = b"Connection: close\r\n\r\n" if last else b"\r\n"
        transport.write(b"".join((head, lane.date, name.fields, end, *body)))
        if last:
            transport.close()
            return
        self._since = lane.now
        if self._ahead:
            self._go_on()

    def _wait_with(self, data: bytes) -> None:
        self._ahead, self._at = self._ahead[self._at :] + data, 0
        if len(self._ahead) > _AHEAD_BYTES_MAX and not self._is_paused and self._transport:
            self._is_paused = True
            self._transport.pause_reading()

    def _go_on(self) -> None:
        """In a turn of its own: a thousand requests sent at once are no stack of a thousand."""
        if self._ahead and self._asked is None and self._stall is None:
            asyncio.get_running_loop().call_soon(self._take_up)

    def _take_up(self) -> None:
        ahead, at, transport = self._ahead, self._at, self._transport
        if not ahead or self._asked is not None or self._stall is not None or transport is None:
            return
        self._ahead, self._at = b"", 0
        self._began = time.monotonic()
        self._look(ahead, at)
        if len(self._ahead) - self._at <= _AHEAD_BYTES_MAX:
            self._read_on(transport)

    def _read_on(self, transport: asyncio.Transport) -> None:
        if self._is_paused and not transport.is_closing():
            self._is_paused = False
            transport.resume_reading()

    def _look(self, data: bytes, at: int = 0) -> None:
        """At the request that begins at `at`."""
        end = data.find(_END, at) + 4
        if end < 4:
            length = len(data) - at
            if length > HEAD_BYTES_MAX or not _INFER.startswith(data[at : at + len(_INFER)]):
                self._hand_over(data[at:])
            else:
                self._keep(data[at:], length + 1, head_is_whole=False)
            return
        head = self._lane.heads.read(data[at:end]) if end - at <= HEAD_BYTES_MAX else None
        if head is None or not self._is_ours(head):
            self._hand_over(data[at:])
            return
        total = end + head.length
        if len(data) < total:
            if head.length > _PIECES_BYTES_MAX:
                # there, big bodies of all connections share a bounded room
                self._hand_over(data[at:])
            else:
                self._keep(data[at:], total - at, head_is_whole=True)
            return
        if len(data) > total:
            self._ahead, self._at = data, total
        self._take(head, data, at, end, total)

    def _is_ours(self, head: Head) -> bool:
        return (
            head.length <= self._lane.settings.body_bytes_max and head.json_bytes <= _JSON_BYTES_MAX
        )

    def _keep(self, data: bytes, need: int, *, head_is_whole: bool) -> None:
        self._pieces += data
        self._need, self._head_is_whole = need, head_is_whole

    def _take(self, head: Head, data: bytes, begin: int, end: int, total: int) -> None:
        lane, now = self._lane, time.monotonic()
        name = named(head.request_id, head.traceparent)
        request = self._asked = FastRequest(self, lane, name, self._began, now)
        assert self._transport is not None
        lane.bounds.busy(self._transport)
        try:
            request.admit(head)
            served = request.find(head)
            at = end + head.json_bytes
            header = data[end:at]
            kept = lane.calls.find(served, header)
            if kept is not None:
                rows = kept.rows(memoryview(data)[at:total])
            else:
                body = memoryview(data)[end:total]
                kept, rows = lane.calls.read(served, body, head.header_length, header)
            if kept.is_asynchronous:
                self._give_up(request, data[begin:total])
                return
            request.ask(kept, rows)
        except Exception as error:  # noqa: BLE001  the table of problems knows bugs, too
            request.refuse(error)

    def _give_up(self, request: FastRequest, data: bytes) -> None:
        request.give_up()
        self._asked = None
        self._hand_over(data)

    def _hand_over(self, data: bytes) -> None:
        """From here on this connection is aiohttp's."""
        transport = self._left()
        if transport is None:
            return
        self._read_on(transport)
        self._lane.bounds.idle(transport)
        protocol = self._lane.hand_over()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        protocol.data_received(data + self._ahead[self._at :])

    def _left(self) -> asyncio.Transport | None:
        self._end_stall()
        self._lane.connections.discard(self)
        transport, self._transport = self._transport, None
        return transport

    def _reader_is_stalled(self) -> None:
        self._lane.bounds.metrics.stalled.inc()
        self.abort()

    def _end_stall(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None
