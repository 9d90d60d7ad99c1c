"""One connection of a client that may break at any moment."""

import asyncio
import contextlib
from typing import Final, Self

from cloud.broker.codec import packets as p
from cloud.broker.codec.encode import encode
from cloud.broker.codec.packets import Version
from cloud.broker.codec.parser import Parser
from cloud.broker.codec.properties import PropertyId
from simulations.broker_chaos.broker_process import HOST
from simulations.broker_chaos.plan import PASSWORD, Plan

PLENTY: Final = 1 << 30
ANSWER_S_MAX: Final = 10.0
KEEP_ALIVE_S: Final = 30
EXPIRY_S: Final = 3_600


class Gone(Exception):
    """The connection ended, or there was none; the client tries again."""


class Link:
    """Packets out and in. Every method raises `Gone` once the connection has ended."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, version: Version
    ) -> None:
        """Take over an open connection."""
        self._reader, self._writer = reader, writer
        self._version = version
        self._parser = Parser(PLENTY, version)
        self._found: list[p.Packet] = []
        self.session_present = False
        self.refused = 0
        """CONNACK's reason."""
        self.end_reason = 0
        """Of the broker's DISCONNECT."""

    @classmethod
    async def open(
        cls,
        plan: Plan,
        client_id: str,
        user: str,
        *,
        version: int = 5,
        durable: bool = True,
        will: p.Will | None = None,
    ) -> Self:
        """Connect and wait for CONNACK. Raises `Gone` when refused or not answered."""
        spoken = Version(version)
        try:
            link = cls(*await asyncio.open_connection(HOST, plan.port), spoken)
        except OSError as error:
            raise Gone from error
        keeps = durable and spoken is Version.V5
        connect = p.Connect(
            client_id, spoken, not durable, KEEP_ALIVE_S, will,
            user if plan.acl or plan.passwords else None,
            PASSWORD.format(user).encode() if plan.passwords else None,
            ((PropertyId.SESSION_EXPIRY_INTERVAL, EXPIRY_S),) if keeps else (),
        )  # fmt: skip
        try:
            async with asyncio.timeout(ANSWER_S_MAX):
                await link.send(connect)
                first = (await link.read(1))[0]
        except (TimeoutError, Gone) as error:
            await link.cut()
            raise Gone from error
        except BaseException:
            await link.cut()
            raise
        if not isinstance(first, p.Connack) or first.reason:
            await link.cut()
            raise Gone(str(first))
        link.session_present = first.session_present
        return link

    async def send(self, *packets: p.Packet) -> None:
        """Write packets and wait for room."""
        await self.send_bytes(b"".join(encode(one, self._version) for one in packets))

    async def send_bytes(self, data: bytes) -> None:
        """Write bytes, packets or not, and wait for room."""
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError as error:
            raise Gone from error

    async def read(self, count_max: int = 1 << 20) -> list[p.Packet]:
        """Give the packets that came, at least one."""
        while not self._found:
            try:
                data = await self._reader.read(65_536)
            except OSError as error:
                raise Gone from error
            if not data:
                raise Gone
            self._found += self._parser.feed(data)
            for one in self._found:
                if isinstance(one, p.Disconnect):
                    self.end_reason = one.reason
        taken, self._found = self._found[:count_max], self._found[count_max:]
        return taken

    async def cut(self) -> None:
        """End without DISCONNECT; what was not read yet is lost."""
        self._writer.transport.abort()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def leave(self) -> bool:
        """End with DISCONNECT; says whether the broker closed, so that it has read that."""
        heard = False
        with contextlib.suppress(Gone, TimeoutError):
            await self.send(p.Disconnect())
            async with asyncio.timeout(ANSWER_S_MAX):
                try:
                    while True:
                        await self.read()
                except Gone as gone:
                    heard = gone.__cause__ is None
        await self.cut()
        return heard
