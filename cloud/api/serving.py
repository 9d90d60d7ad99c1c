"""Both lanes on one port, from the first connection to the last answer."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from cloud.api.app import ApiServer, Parts
from cloud.api.fast_lane.connection import Connection
from cloud.api.fast_lane.lane import Lane
from cloud.api.settings import Api
from shared.errors import InUse
from shared.http_url import http_url

Protocols = Callable[[], asyncio.Protocol]


class Front:
    """The API, before it listens, while it does, and at its end."""

    def __init__(self, server: ApiServer, lane: Lane, settings: Api, protocol: Protocols) -> None:
        self._server, self._lane, self._settings = server, lane, settings
        self._protocol = protocol
        self._listener: asyncio.Server | None = None
        self.url = ""

    @property
    def was_asked(self) -> bool:
        """Whether there ever was an inference call."""
        return self._server.statistics.has_any

    async def listen(self, port: int, *, shared: bool) -> None:
        """Raises `InUse` for a port that is taken.

        `shared`: other processes listen on the same one (SO_REUSEPORT).
        """
        settings, lane = self._settings, self._lane
        try:
            listener = self._listener = await asyncio.get_running_loop().create_server(
                (lambda: Connection(lane)) if settings.fast_lane else self._protocol,
                settings.host, port, backlog=1024, reuse_port=shared or None,
            )  # fmt: skip
        except OSError as error:
            raise InUse(
                f"api: cannot listen on {settings.host}:{port}: {error.strerror}; "
                "set api.host and api.port to an address that is free, or the port to 0"
            ) from error
        self.url = http_url(settings.host, listener.sockets[0].getsockname()[1])

    def begin_end(self) -> None:
        """From now on each answer is its connection's last; new connections still come in."""
        self._lane.closing = True
        self._server.connections.closing = True

    async def end(self) -> None:
        """Take no more connections, and return when what came in is answered."""
        self.begin_end()
        self.close()
        for connection in tuple(self._lane.connections):
            connection.close_if_idle()
        await self._server.connections.until_quiet()

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()


@asynccontextmanager
async def fronting(parts: Parts, settings: Api) -> AsyncGenerator[Front]:
    """Serve, from `listen` until the block ends."""
    server = ApiServer(parts, settings)
    async with server.serving() as protocol:
        lane = Lane(settings, parts, server, protocol)
        lane.start()
        front = Front(server, lane, settings, protocol)
        try:
            yield front
        finally:
            front.close()
            lane.stop()
