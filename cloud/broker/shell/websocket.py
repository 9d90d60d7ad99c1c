"""MQTT over WebSockets (section 6): aiohttp's frames on one side, a `Peer` on the other.

A `Channel` stands between them as the peer's transport. What the peer writes waits in it until a
task has handed it to aiohttp, one binary frame for all of a turn of the loop; above the peer's
high-water mark the peer is paused, as by a socket. Packets may span frames (6.0-2): the peer's
parser does not see where they end.
"""

import asyncio
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

from aiohttp import WSCloseCode, WSMsgType, web

from cloud.broker.shell.peer import TURN_S

CLOSE_S_MAX: Final = 2.0
"""For a client to answer our close frame, and then to read what is left before the end."""
_RESUME_SHARE: Final = 4
"""A full channel takes more once it holds a quarter of its high-water mark, as asyncio's do."""


class Channel(asyncio.Transport):
    """A transport whose other end is a WebSocket."""

    def __init__(
        self, frames: web.WebSocketResponse, below: asyncio.Transport, peer: asyncio.Protocol
    ) -> None:
        """Stand between `frames`, which run over the connection `below`, and `peer`."""
        super().__init__()
        self._frames, self._below, self._peer = frames, below, peer
        self._chunks: list[bytes] = []
        self._held_bytes = 0
        self._high = 65_536
        self._is_full = self._is_closing = False
        self._due = asyncio.Event()
        self._may_read = asyncio.Event()
        self._may_read.set()

    async def run(self) -> None:
        """Carry bytes both ways until either end closes."""
        self._peer.connection_made(self)
        writing = asyncio.create_task(self._write())
        try:
            await self._read()
        finally:
            self._is_closing = True
            writing.cancel()
            with suppress(asyncio.CancelledError):
                await writing
            self._peer.connection_lost(None)
            self._abort_soon()

    async def _read(self) -> None:
        """Hand on binary messages; a message of another kind ends the connection (6.0.0-1)."""
        turn_ends_at = time.monotonic() + TURN_S
        while True:
            await self._may_read.wait()
            message = await self._frames.receive()
            if time.monotonic() > turn_ends_at:  # many are there already: others have their turn
                await asyncio.sleep(0)
                turn_ends_at = time.monotonic() + TURN_S
            if message.type is WSMsgType.BINARY:
                self._peer.data_received(message.data)
            elif message.type is WSMsgType.TEXT:
                self._abort_soon()
                why = b"MQTT is sent in binary frames"
                await self._frames.close(code=WSCloseCode.UNSUPPORTED_DATA, message=why)
                return
            else:
                return

    def _abort_soon(self) -> None:
        """One that reads nothing would keep the connection, and what waits in it, for ever."""
        asyncio.get_running_loop().call_later(CLOSE_S_MAX, self._below.abort)

    async def _write(self) -> None:
        """Send what waits, one frame for a turn of the loop; close when asked and all is sent."""
        try:
            while self._chunks or not self._is_closing:
                await self._due.wait()
                self._due.clear()
                chunks, self._chunks = self._chunks, []
                if chunks:
                    await self._frames.send_bytes(b"".join(chunks))
                    self._held_bytes -= sum(map(len, chunks))
                if self._is_full and self._held_bytes <= self._high // _RESUME_SHARE:
                    self._is_full = False
                    self._peer.resume_writing()
            self._may_read.set()
            await self._frames.close()
        except ConnectionError:
            self.abort()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send soon. After `close` it is thrown away, as sockets do."""
        if self._is_closing:
            return
        self._chunks.append(bytes(data))
        self._held_bytes += len(data)
        self._due.set()
        if self._held_bytes > self._high and not self._is_full:
            self._is_full = True
            self._peer.pause_writing()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Send them soon, in one frame."""
        for data in list_of_data:
            self.write(data)

    def close(self) -> None:
        """Send what waits, then close."""
        self._is_closing = True
        self._due.set()

    def can_write_eof(self) -> bool:
        """Say that a WebSocket has no half that closes alone."""
        return False

    def abort(self) -> None:
        """Close at once; the reader notices."""
        self._is_closing = True
        self._may_read.set()
        self._below.abort()

    def is_closing(self) -> bool:
        """Whether this end has closed, or the other has gone."""
        return self._is_closing

    def pause_reading(self) -> None:
        """Take no more messages: aiohttp holds 512 KiB, then stops reading the connection."""
        self._may_read.clear()

    def resume_reading(self) -> None:
        """Go on where `pause_reading` stopped."""
        self._may_read.set()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the bytes held above which the peer is paused."""
        del low
        if high is not None:
            self._high = high

    def get_write_buffer_size(self) -> int:
        """Bytes that wait here; those in the connection's own buffer come on top."""
        return self._held_bytes

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Of the connection below: `socket`, `peername`, `peercert`, `ssl_object`."""
        return self._below.get_extra_info(name, default)
