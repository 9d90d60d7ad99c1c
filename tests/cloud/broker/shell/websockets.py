"""A server in this process that takes WebSockets, and clients of it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp

from cloud.broker.codec import packets as p
from cloud.broker.codec.encode import encode
from cloud.broker.codec.packets import Version
from cloud.broker.codec.parser import Parser
from cloud.broker.limits import Limits
from cloud.broker.shell.server import Server
from cloud.broker.shell.websocket_listener import websockets_listening

LIMITS = Limits(packet_bytes_max=65_536, write_buffer_bytes=16_384, control_bytes_max=1_000)
TIMEOUT_S = 10.0
PAGE = "https://site.example"


@dataclass
class Client:
    """An MQTT client whose packets travel as the test says."""

    frames: aiohttp.ClientWebSocketResponse
    parser: Parser = field(default_factory=lambda: Parser(1 << 28, Version.V5))
    packets: list[p.Packet] = field(default_factory=list)

    async def send(self, *packets: p.Packet) -> None:
        await self.frames.send_bytes(b"".join(map(encode, packets)))

    async def read(self) -> p.Packet | int | None:
        """Give the next packet, or the code with which the server closed."""
        while not self.packets:
            message = await self.frames.receive()
            if message.type is not aiohttp.WSMsgType.BINARY:
                return self.frames.close_code
            self.packets += self.parser.feed(message.data)
        return self.packets.pop(0)


class Listening:
    """A server that takes WebSockets, and a way to it."""

    def __init__(self, server: Server, url: str, http: aiohttp.ClientSession) -> None:
        self.server, self.url, self.http = server, url, http

    @asynccontextmanager
    async def client(self, client_id: str = "", path: str = "/mqtt") -> AsyncIterator[Client]:
        """Open a WebSocket, and an MQTT connection over it if there is a client id."""
        async with self.http.ws_connect(self.url + path, protocols=["mqtt"]) as frames:
            client = Client(frames)
            if client_id:
                await client.send(p.Connect(client_id))
                assert isinstance(await client.read(), p.Connack)
            yield client

    async def handshake(self, **headers: str) -> int:
        """Give the status that a request with these headers gets."""
        shown = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.http.get(self.url + "/mqtt", headers=shown) as answer:
            return answer.status


def listening(check: Callable[[Listening], Awaitable[None]], limits: Limits = LIMITS) -> None:
    async def run() -> None:
        server = Server(limits)
        async with (
            websockets_listening(server, "127.0.0.1", 0, origins=frozenset({PAGE})) as (_, port),
            aiohttp.ClientSession() as http,
            asyncio.timeout(TIMEOUT_S),
        ):
            await check(Listening(server, f"http://127.0.0.1:{port}", http))
            await server.drain()
        assert not server.peers

    asyncio.run(run())
