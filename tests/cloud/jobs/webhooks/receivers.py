"""Real HTTP servers on loopback that take webhooks, in the test's own loop."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web


@dataclass(frozen=True, slots=True)
class Got:
    headers: dict[str, str]
    body: bytes


Reply = Callable[["Receiver"], Awaitable[web.StreamResponse]]


async def take(_: "Receiver") -> web.StreamResponse:
    return web.Response()


@dataclass(slots=True)
class Receiver:
    port: int = 0
    got: list[Got] = field(default_factory=list)
    request: web.BaseRequest | None = None  # the newest

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"


@asynccontextmanager
async def receiving(reply: Reply = take) -> AsyncIterator[Receiver]:
    """Every path and method; `reply` may answer anything."""
    receiver = Receiver()

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        receiver.request = request
        receiver.got.append(Got(headers, await request.read()))
        return await reply(receiver)

    runner = web.ServerRunner(web.Server(handle), shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        receiver.port = runner.addresses[0][1]
        yield receiver
    finally:
        await runner.cleanup()
