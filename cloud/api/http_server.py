"""An HTTP application made of a table of routes: its router, its middlewares, and the protocol that
answers within the bounds of connections.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from cloud.api.connections import Connections
from cloud.api.middleware import guarding, identifying, reporting, response_of
from cloud.api.problems import Problem, http_problem
from cloud.api.routes import Route
from cloud.gateway.gateway import Gateway
from cloud.gateway.roles import Role
from shared.http_noise import quiet_logger

DRAIN_S_MAX = 5.0


class HttpServer:
    """Needs no running loop. `count` gets every answer that is a problem, `unreadable` is called for
    every connection that speaks no HTTP. No gateway: everybody may do everything.
    """

    def __init__(
        self,
        routes: Sequence[Route],
        gateway: Gateway | None,
        connections: Connections,
        count: Callable[[Problem], None],
        unreadable: Callable[[], None],
    ) -> None:
        self._connections, self._unreadable = connections, unreadable
        self.runner = web.AppRunner(
            _application(routes, gateway, connections, count), access_log=None,
            shutdown_timeout=DRAIN_S_MAX,
            handler_cancellation=True,  # nothing is computed for a client who has left
        )  # fmt: skip

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[Callable[[], asyncio.Protocol]]:
        """A factory of protocols that answer whatever comes, within the bounds of connections.

        On the way out requests in hand get `DRAIN_S_MAX` seconds.
        """
        await self.runner.setup()
        try:
            server, loop = self.runner.server, asyncio.get_running_loop()
            assert server is not None
            logger, limits = quiet_logger(self._unreadable), self._connections.limits

            def protocol() -> asyncio.Protocol:
                return _Protocol(
                    server, loop=loop, logger=logger, auto_decompress=False,
                    access_log=None,  # type: ignore[arg-type]  # aiohttp's word for none
                    keepalive_timeout=limits.idle_s_max,
                    lingering_time=limits.linger_s_max,
                )  # fmt: skip

            yield self._connections.guarding(protocol)
        finally:
            await self.runner.cleanup()


def _application(
    routes: Sequence[Route],
    gateway: Gateway | None,
    connections: Connections,
    count: Callable[[Problem], None],
) -> web.Application:
    roles: dict[web.AbstractRoute, Role | None] = {}
    app = web.Application(
        middlewares=[identifying(connections), reporting(count), guarding(gateway, roles)]
    )
    for route in routes:
        resource = app.router.add_resource(route.path)
        for method in ("GET", "HEAD") if route.method == "GET" and route.head else (route.method,):
            added = resource.add_route(method, route.handler, expect_handler=_later)
            roles[added] = route.role
    return app


class _Protocol(RequestHandler):
    """aiohttp's, whose own refusals (bytes that are no request) are problems, too."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        super().handle_error(request, status, exc, message)  # logs, and raises once bytes are out
        detail = (message or "").partition("\n")[0].rstrip(": ")[:200] or HTTPStatus(status).phrase
        response = response_of(http_problem(HTTPStatus(status), detail), "")
        response.force_close()
        return response


async def _later(_: web.Request) -> None:
    """`Expect: 100-continue` is answered where a body is read, when nothing speaks against it."""
