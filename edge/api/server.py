"""The server: routes put together, a bounded number of connections, an orderly end."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import cast

from aiohttp import web

from edge.answers import Answering
from edge.api.answers import AnswerRoutes
from edge.api.inference import InferenceRoutes
from edge.api.problems import for_programs, reporting
from edge.api.settings import Limits
from edge.api.status import Inspectable, StatusRoutes
from edge.api.streams import StreamRoutes
from edge.api.updates import UpdateRoutes, Updating
from edge.telemetry.counters import Counters
from shared.errors import InUse
from shared.http_noise import quiet_logger

LIMITS = web.AppKey("limits", Limits)
COUNTERS = web.AppKey("counters", Counters)
DRAIN_S_MAX = 5.0

_WORDS = b'{"title":"Service Unavailable","status":503,"error":"too many open connections"}'
_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\n"
    b"Retry-After: 1\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(_WORDS), _WORDS)
)


def build_app(
    answering: Answering,
    inspectable: Inspectable,
    limits: Limits | None = None,
    updates: Updating | None = None,
) -> web.Application:
    """The application; it needs a running event loop. Counts its own events beside the agent's."""
    limits = limits or Limits()
    counters = Counters()
    app = web.Application(
        middlewares=[reporting(counters), for_programs], client_max_size=limits.body_bytes_max
    )
    app[LIMITS], app[COUNTERS] = limits, counters
    streams = StreamRoutes(answering, limits, counters)
    streams.add_to(app.router)  # before the ids, of which "stream" is none
    AnswerRoutes(answering, limits).add_to(app.router)
    InferenceRoutes(answering, inspectable, limits).add_to(app.router)
    StatusRoutes(answering, inspectable, counters).add_to(app.router)
    UpdateRoutes(updates, limits).add_to(app.router)
    app.on_shutdown.append(streams.close)
    return app


@asynccontextmanager
async def serving(app: web.Application, host: str, port: int) -> AsyncGenerator[int]:
    """Serve within the context; yields the real port. Raises `InUse` when the port is taken.

    On the way out: no new connections, streams end, requests in flight get `DRAIN_S_MAX` seconds.
    """
    limits = app[LIMITS]
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=quiet_logger(lambda: app[COUNTERS].add("http_unreadable")),
        shutdown_timeout=DRAIN_S_MAX,
        keepalive_timeout=limits.idle_s_max,
        lingering_time=limits.linger_s_max,
    )
    await runner.setup()
    try:
        listener = await _listen(_bounded(runner, app[COUNTERS], limits), host, port)
        try:
            yield listener.sockets[0].getsockname()[1]
        finally:
            listener.close()
    finally:
        await runner.cleanup()


async def _listen(
    factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
) -> asyncio.Server:
    try:
        return await asyncio.get_running_loop().create_server(factory, host, port, backlog=128)
    except OSError as error:
        raise InUse(
            f"api: cannot listen on {host}:{port} ({error.strerror}); "
            "set api.host and api.port to an address that is free, or the port to 0"
        ) from error


def _bounded(
    runner: web.AppRunner, counters: Counters, limits: Limits
) -> Callable[[], asyncio.BaseProtocol]:
    server = runner.server
    assert server is not None, "setup() comes first"

    def connect() -> asyncio.BaseProtocol:
        if len(server.connections) < limits.connections_max:
            return server()
        counters.add("connections_refused")
        return _TooMany()

    return connect


class _TooMany(asyncio.Protocol):
    """Says why, and closes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast("asyncio.Transport", transport)
        transport.write(_BUSY)
        transport.close()
