"""A socket to the live broker whose every incoming packet is judged."""

import asyncio
import contextlib
from random import Random
from typing import Final, Self

from cloud.broker.codec import packets as p
from cloud.broker.codec.packets import Version
from cloud.broker.codec.parser import Parser
from cloud.broker.codec.reasons import BrokenRule
from simulations.broker_fuzz.client import ClientView, Wrong

PLENTY: Final = 1 << 30


class Wire:
    """Bytes out in pieces; packets in, through a `ClientView`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take over an open connection."""
        self._reader, self._writer = reader, writer
        self._parser: Parser | None = None
        self.view = ClientView()
        self.sent = bytearray()
        self.latest: p.Packet | None = None

    @classmethod
    async def connect(cls, host: str, port: int) -> Self:
        """Open a connection."""
        return cls(*await asyncio.open_connection(host, port))

    async def send(self, data: bytes, rng: Random) -> None:
        """Send it whole, or in pieces that mostly become segments of their own."""
        self.sent += data
        cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.choice((0, 0, 1, 4))))
        try:
            for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
                if self._writer.transport.is_closing():
                    return  # closed on us: `last` says how
                self._writer.write(data[start:end])
                await asyncio.sleep(0)
            await self._writer.drain()
        except ConnectionError:
            return

    async def until(self, kind: type, seconds: float) -> p.Packet:
        """Read until a packet of a kind comes; raises `Wrong` if the connection ends first."""
        found = await self.one(kind, seconds)
        if found is None:
            why = f"its last packet was {self.latest!r}"
            raise Wrong(f"the connection ended where {kind.__name__} was due; {why}")
        return found

    async def one(self, kind: type, seconds: float) -> p.Packet | None:
        """Read until a packet of a kind comes, or give None at the end of the connection."""
        try:
            async with asyncio.timeout(seconds):
                while (found := await self._read()) is not None:
                    for packet in found:
                        if isinstance(packet, kind):
                            return packet
        except TimeoutError as error:
            raise Wrong(f"no {kind.__name__} within {seconds} s") from error
        return None

    async def last(self) -> p.Packet | None:
        """Read to the end; the last packet, or None if nothing came."""
        last = None
        while (found := await self._read()) is not None:
            last = found[-1] if found else last
        return last

    async def abort(self) -> None:
        """Drop the connection without a word."""
        self._writer.transport.abort()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def _read(self) -> list[p.Packet] | None:
        try:
            data = await self._reader.read(65_536)
        except ConnectionError:
            return None
        if not data:
            return None
        if data == b"\x20\x02\x00\x01":
            return [p.Connack(session_present=False, reason=0x84)]
        if self._parser is None:
            self._parser = Parser(PLENTY, Version(self.view.version))
        try:
            found = list(self._parser.feed(data))
        except BrokenRule as error:
            raise Wrong(f"the broker's own bytes are no packets: {error}") from error
        for packet in found:
            self.latest = packet
            self.view.take(packet, 0)
        return found
