"""Both lanes on one port, from the first connection to the last answer."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from cloud.api.app import ApiServer, Parts
from cloud.api.fast_lane.connection import Connection
from cloud.api.fast_lane.lane import Lane
from cloud.api.settings import Api
from shared.errors import InUse


class Front:
    """The listening API."""

    def __init__(self, server: ApiServer, lane: Lane, listener: asyncio.Server, url: str) -> None:
        self._server, self._lane, self._listener = server, lane, listener
        self.url = url

    @property
    def was_asked(self) -> bool:
        """Whether there ever was an inference call."""
        return self._server.statistics.has_any

    def begin_end(self) -> None:
        """From now on each answer is its connection's last; new connections still come in."""
        self._lane.closing = True
        self._server.connections.closing = True

    async def end(self) -> None:
        """Take no more connections, and return when what came in is answered."""
        self.begin_end()
        self._listener.close()
        for connection in tuple(self._lane.connections):
            connection.close_if_idle()
        await self._server.connections.until_quiet()


@asynccontextmanager
async def fronting(
    parts: Parts, settings: Api, port: int, *, shared: bool
) -> AsyncGenerator[Front]:
    """Serve until the block ends. Raises `InUse` for a port that is taken.

    `shared`: other processes listen on the same port (SO_REUSEPORT).
    """
    server = ApiServer(parts, settings)
    async with server.serving() as protocol:
        lane = Lane(settings, parts, server, protocol)
        try:
            listener = await asyncio.get_running_loop().create_server(
                (lambda: Connection(lane)) if settings.fast_lane else protocol,
                settings.host, port, backlog=1024, reuse_port=shared or None,
            )  # fmt: skip
        except OSError as error:
            raise InUse(
                f"api: cannot listen on {settings.host}:{port}: {error.strerror}; "
                "set api.host and api.port to an address that is free, or the port to 0"
            ) from error
        lane.start()
        try:
            bound = listener.sockets[0].getsockname()[1]
            yield Front(server, lane, listener, f"http://{settings.host}:{bound}")
        finally:
            listener.close()
            lane.stop()
