"""A TCP balancer as people put in front of workers: health checks, and connections in turn.

It moves bytes and knows no HTTP but for its health checks: a connection stays with the worker that
it was opened to, until one of its ends closes it.
"""

import asyncio
import contextlib
from dataclasses import dataclass, field

import aiohttp

CHECK_EVERY_S = 0.1


@dataclass
class Backend:
    host: str
    port: int
    healthy: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def becomes(self, healthy: bool) -> None:
        if healthy != self.healthy:
            self.healthy = healthy
            self.changed.set()

    async def until(self, healthy: bool) -> None:
        while self.healthy != healthy:
            self.changed.clear()
            await self.changed.wait()


class Balancer:
    def __init__(self) -> None:
        self.backends: list[Backend] = []
        self._turn = 0
        self._pipes: set[asyncio.Task[None]] = set()

    async def start(self, parts: asyncio.TaskGroup) -> int:
        """The port that clients use."""
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self._server = server
        self._parts = parts
        return int(server.sockets[0].getsockname()[1])

    def add(self, backend: Backend) -> None:
        self.backends.append(backend)
        task = self._parts.create_task(self._check(backend))
        self._pipes.add(task)

    async def stop(self) -> None:
        self._server.close()
        for task in self._pipes:
            task.cancel()

    async def _check(self, backend: Backend) -> None:
        url = f"http://{backend.host}:{backend.port}/v2/health/ready"
        timeout = aiohttp.ClientTimeout(total=2)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            while True:
                try:
                    async with session.get(url) as response:
                        backend.becomes(response.status == 200)
                except (aiohttp.ClientError, TimeoutError):
                    backend.becomes(False)
                await asyncio.sleep(CHECK_EVERY_S)  # what a health check's period is

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        healthy = [b for b in self.backends if b.healthy]
        if not healthy:
            writer.close()
            return
        self._turn += 1
        backend = healthy[self._turn % len(healthy)]
        try:
            back, forth = await asyncio.open_connection(backend.host, backend.port)
        except OSError:
            backend.becomes(False)
            writer.close()
            return
        async with asyncio.TaskGroup() as pipes:
            pipes.create_task(_pipe(reader, forth))
            pipes.create_task(_pipe(back, writer))


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()
