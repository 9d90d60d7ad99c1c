"""Bytes to and from the broker: an asyncio transport that paho takes for its socket.

One read brings many packets and one write takes many. The first packet of a loop turn leaves at
once; what follows in that turn, and acknowledgements, leave together at its end. What waits here
is bounded by the link's window and by `receive_max`: nothing else makes paho write.
"""

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import cast

_CLOSE_S = 1.0  # for what is already written; a peer that does not read must not hold us


class Wire(asyncio.Protocol):
    """`recv`, `send` and `close` are a socket's, as paho calls them; none of them blocks."""

    def __init__(self, on_data: Callable[[], None], on_lost: Callable[[str], None]) -> None:
        """`on_data` must `recv` everything; `on_lost` gets why the connection ended."""
        self._on_data, self._on_lost = on_data, on_lost
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.WriteTransport | None = None
        self._closed = asyncio.Event()
        self._in, self._at = b"", 0
        self._out: list[bytes | bytearray] = []
        self._holding = False  # until this turn's end, when `_flush` runs

    async def connect(self, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        """Try the host's addresses in turn. Raises OSError; can be cancelled at any time."""
        addresses = await _addresses(host, port)
        for number, address in enumerate(addresses):
            try:
                await self._loop.create_connection(
                    lambda: self, address, port, ssl=tls, server_hostname=host if tls else None
                )
            except OSError:
                if number == len(addresses) - 1:
                    raise
            else:
                return

    @property
    def unread(self) -> bool:
        return self._at < len(self._in)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)  # uvloop's derives from none

    def data_received(self, data: bytes) -> None:
        self._in, self._at = data, 0
        self._on_data()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed.set()
        why = "the broker closed the connection" if exc is None else str(exc)
        if not self._in:
            why += " before it said a word; check port, TLS and certificates"
        self._on_lost(why)

    def recv(self, buffer_size: int) -> bytes:
        if not self.unread:
            raise BlockingIOError
        data = self._in[self._at : self._at + buffer_size]
        self._at += len(data)
        return data

    def send(self, buffer: bytes | bytearray) -> int:
        """Write now, or at the end of this turn if it has seen a write already."""
        if self._holding:
            self._out.append(buffer)
        else:
            self._hold()
            self._write(buffer)
        return len(buffer)

    def send_later(self, buffer: bytes | bytearray) -> None:
        """Write at the end of this turn: nobody waits for it."""
        self._out.append(buffer)
        if not self._holding:
            self._hold()

    def close(self) -> None:
        """Write what is held, then close."""
        self._flush()
        if self._transport is not None:
            self._transport.close()

    async def closed(self) -> None:
        """Close, and wait until the connection is gone; at most `_CLOSE_S`."""
        self.close()
        if self._transport is None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await self._closed.wait()
        self._transport.abort()
        await self._closed.wait()

    def fileno(self) -> int:
        """Nobody may select on it: asyncio does."""
        return -1

    def setblocking(self, flag: bool) -> None:
        """It never blocks."""

    def _hold(self) -> None:
        self._holding = True
        self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._holding = False
        if self._out:
            out, self._out = self._out, []
            self._write(out[0] if len(out) == 1 else b"".join(out))

    def _write(self, data: bytes | bytearray) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)


async def _addresses(host: str, port: int) -> list[str]:
    """Look the name up in a thread of its own that nobody has to wait for.

    The loop's executor is joined when the loop ends, and a look-up without a network takes long.
    """
    loop = asyncio.get_running_loop()
    found: asyncio.Future[list[str]] = loop.create_future()

    def settle(addresses: list[str], error: OSError | None) -> None:
        if found.done():
            return
        if error is None:
            found.set_result(addresses)
        else:
            found.set_exception(error)

    def look_up() -> None:
        addresses: list[str] = []
        failed: OSError | None = None
        try:
            infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            addresses = list(dict.fromkeys(str(info[4][0]) for info in infos))
        except (OSError, UnicodeError) as error:
            failed = error if isinstance(error, OSError) else OSError(f"{host!r}: {error}")
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(settle, addresses, failed)

    threading.Thread(target=look_up, name="name-look-up", daemon=True).start()
    return await found
