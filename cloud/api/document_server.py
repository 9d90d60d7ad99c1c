"""An HTTP API whose bodies are documents: its table of routes, and the server that answers by it."""

import asyncio
import ssl
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Histogram

from cloud.api.about import Description
from cloud.api.asking import Asking, checking
from cloud.api.checked import PathRules
from cloud.api.connections import Connections
from cloud.api.http_server import HttpServer
from cloud.api.metrics import ApiMetrics
from cloud.api.problems import Problem
from cloud.api.room import Room
from cloud.api.routes import Route
from cloud.api.settings import DocumentApi
from cloud.gateway.gateway import Gateway
from shared.errors import InUse
from shared.http_url import http_url


class DocumentServer:
    """Needs no running loop until it listens."""

    def __init__(
        self,
        settings: DocumentApi,
        gateway: Gateway | None,
        table: Callable[[Asking, asyncio.Event], Iterable[Route]],
        paths: PathRules,
        description: Description,
        requests: Histogram,
        unreadable: Counter,
        counts: CollectorRegistry,
    ) -> None:
        """`table` gets what reads bodies, and the event that is set when this process takes nothing
        new. `requests`: seconds, by operation. `counts` takes the metrics of connections.
        """
        self._settings, self._requests = settings, requests
        self._ending = asyncio.Event()
        self._listener: asyncio.Server | None = None
        self._api_metrics = ApiMetrics(counts)
        self._connections = Connections(settings, self._api_metrics)
        room = Room(settings.bodies_bytes_max)
        self._api_metrics.body_bytes.set_function(lambda: room.taken_bytes)
        routes = (*table(Asking(settings, room), self._ending), description.route())
        self.routes = [self._timed(checking(route, paths)) for route in routes]
        description.describe(self.routes)
        self._http = HttpServer(
            self.routes, gateway, self._connections, self._count, unreadable.inc
        )

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator[str]:
        """Serve until the block ends; gives the URL. Requests in hand are answered first.

        Raises `InUse` for a port that is taken, and as `_tls`.
        """
        host, port = self._settings.host, self._settings.port
        tls = await self._tls()
        async with self._http.serving() as protocol:
            try:
                listener = self._listener = await asyncio.get_running_loop().create_server(
                    protocol, host, port, backlog=1024, ssl=tls
                )
            except OSError as error:
                raise InUse(
                    f"api: cannot listen on {host}:{port}: {error.strerror}; set api.host and "
                    "api.port to an address that is free, or the port to 0"
                ) from error
            try:
                url = http_url(host, listener.sockets[0].getsockname()[1])
                yield url if tls is None else url.replace("http://", "https://", 1)
            finally:
                self.begin_end()

    def begin_end(self) -> None:
        """Take no more connections; each answer is its connection's last; nobody waits any more."""
        self._ending.set()
        self._connections.closing = True
        if self._listener is not None:
            self._listener.close()

    async def until_quiet(self) -> None:
        """Wait until no request is in hand."""
        await self._connections.until_quiet()

    async def _tls(self) -> ssl.SSLContext | None:
        """For an API that can speak TLS to say with what."""
        return None

    def _count(self, problem: Problem) -> None:
        self._api_metrics.problems.labels(str(problem.status.value), problem.kind).inc()

    def _timed(self, route: Route) -> Route:
        inner, seconds = route.handler, self._requests.labels(route.operation_id)

        async def handler(request: web.Request) -> web.StreamResponse:
            began = time.monotonic()
            response = await inner(request)
            seconds.observe(time.monotonic() - began)
            return response

        return replace(route, handler=handler)
