"""A TCP proxy between a client and a registry, whose line can be cut or go dead after some bytes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class CuttingProxy:
    """`cuts`: after so many bytes from the client (`of_answers`: from the registry), one after the
    other; then it lets all through. With `goes_dead` a connection is not closed at its cut: it stays,
    and nothing passes any more.
    """

    def __init__(
        self, host: str, port: int, cuts: list[int], *, goes_dead: bool, of_answers: bool
    ) -> None:
        self._upstream = (host, port)
        self._cuts = cuts
        self._goes_dead, self._of_answers = goes_dead, of_answers
        self.was_cut = asyncio.Event()
        self._is_over, self._is_ended = asyncio.Event(), asyncio.Event()
        self._serving: set[asyncio.Task[object]] = set()
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            there, here = await asyncio.open_connection(*self._upstream)
        except OSError:  # the registry is away
            await _end(writer)
            return
        ways = [
            asyncio.create_task(self._pass_on(reader, here, is_cut=not self._of_answers)),
            asyncio.create_task(self._pass_on(there, writer, is_cut=self._of_answers)),
            asyncio.create_task(self._is_ended.wait()),
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        await _end(writer)
        await _end(here)

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_cut: bool
    ) -> None:
        while data := await reader.read(1 << 14):
            if is_cut and self._cuts:
                self._cuts[0] -= len(data)
                if self._cuts[0] <= 0:
                    self._cuts.pop(0)
                    self.was_cut.set()
                    if self._goes_dead:
                        await self._is_over.wait()
                    return
            writer.write(data)
            await writer.drain()

    def revive(self) -> None:
        """Close the dead lines: both ends hear of it."""
        self._is_over.set()

    async def end(self) -> None:
        self._is_ended.set()
        await asyncio.gather(*self._serving)


@asynccontextmanager
async def cutting_proxy(
    host: str, port: int, cuts: list[int], *, goes_dead: bool = False, of_answers: bool = False
) -> AsyncIterator[CuttingProxy]:
    proxy = CuttingProxy(host, port, cuts, goes_dead=goes_dead, of_answers=of_answers)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        server.close()
        await proxy.end()


async def _end(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
