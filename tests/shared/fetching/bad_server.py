"""A server that does to a transfer whatever a test asks of it."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Seen:
    """One request, as it came."""

    path: str
    range: str
    if_range: str
    headers: dict[str, str]


@dataclass
class BadServer:
    """Serves `files` with ranges and ETags; a queue of misdeeds comes before that, one a request
    for a path that holds `bad_path`.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    misdeeds: list[Handler] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    url: str = ""
    bad_path: str = ""
    left: int = 0  # clients that gave up a transfer that hung

    def offer(self, content: bytes) -> tuple[str, str, int]:
        """Returns URL, SHA-256 and size."""
        sha256 = hashlib.sha256(content).hexdigest()
        self.files[sha256] = content
        return f"{self.url}/{sha256}", sha256, len(content)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        asked = request.headers
        self.seen.append(
            Seen(request.path, asked.get("Range", ""), asked.get("If-Range", ""), dict(asked))
        )
        if self.misdeeds and self.bad_path in request.path:
            return await self.misdeeds.pop(0)(request)
        return self.serve(request)

    def serve(self, request: web.Request) -> web.Response:
        name = request.path.rsplit("/", 1)[-1]
        content = self.files.get(name)
        if content is None:
            return web.Response(status=404)
        headers = {"ETag": f'"{name}"'}
        asked = request.headers.get("Range", "")
        if not asked or request.headers.get("If-Range", headers["ETag"]) != headers["ETag"]:
            return web.Response(body=content, headers=headers)
        start = int(asked.removeprefix("bytes=").rstrip("-"))
        if start >= len(content):
            return web.Response(status=416)
        headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        return web.Response(status=206, body=content[start:], headers=headers)

    def cuts_after(self, count: int) -> Handler:
        """Promise the rest of the file, send `count` bytes of it, and hang up."""

        async def handler(request: web.Request) -> web.StreamResponse:
            whole = self.serve(request)
            assert isinstance(whole.body, bytes)
            response = web.StreamResponse(status=whole.status, headers=whole.headers)
            response.content_length = len(whole.body)
            await response.prepare(request)
            await response.write(whole.body[:count])
            assert request.transport is not None
            request.transport.close()
            return response

        return handler

    def says(self, status: int, body: bytes = b"", **headers: str) -> Handler:
        named = {name.replace("_", "-"): value for name, value in headers.items()}

        async def handler(request: web.Request) -> web.StreamResponse:
            return web.Response(status=status, body=body, headers=named)

        return handler

    def streams(self, body: bytes) -> Handler:
        """Of unstated length."""

        async def handler(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            response.enable_chunked_encoding()
            await response.prepare(request)
            await response.write(body)
            return response

        return handler

    def goes_on_with(self, piece: bytes) -> Handler:
        """Fifty times a second, for ever."""

        async def handler(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            while True:
                await response.write(piece)
                await asyncio.sleep(0.02)

        return handler

    def hangs(self, after: int = 0) -> Handler:
        async def handler(request: web.Request) -> web.StreamResponse:
            whole = self.serve(request)
            assert isinstance(whole.body, bytes)
            response = web.StreamResponse(status=whole.status, headers=whole.headers)
            response.content_length = len(whole.body)
            await response.prepare(request)
            await response.write(whole.body[:after])
            try:
                await asyncio.Event().wait()
            finally:
                self.left += 1
            return response

        return handler


Kind = TypeVar("Kind", bound=BadServer)


@asynccontextmanager
async def serving(server: Kind) -> AsyncIterator[Kind]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()


@asynccontextmanager
async def bad_server() -> AsyncIterator[BadServer]:
    async with serving(BadServer()) as server:
        yield server
