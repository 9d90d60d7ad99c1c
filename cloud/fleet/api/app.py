"""The HTTP API of a fleet: its table of routes, and the server that answers by it."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace

from aiohttp import web
from prometheus_client import CollectorRegistry

from cloud.api.connections import Connections
from cloud.api.http_server import HttpServer
from cloud.api.metrics import ApiMetrics
from cloud.api.problems import Problem
from cloud.api.room import Room
from cloud.api.routes import Route
from cloud.fleet.api.asking import Asking, checking
from cloud.fleet.api.devices import DeviceRoutes
from cloud.fleet.api.enrolment import EnrolmentRoutes
from cloud.fleet.api.groups import GroupRoutes
from cloud.fleet.api.operations import OperationsRoutes
from cloud.fleet.api.rollouts import RolloutRoutes
from cloud.fleet.api.settings import FleetApi
from cloud.fleet.api.tls import server_context
from cloud.fleet.certifying import Certifying
from cloud.fleet.control import Control
from cloud.fleet.metrics import FleetMetrics
from cloud.gateway.gateway import Gateway
from shared.errors import InUse
from shared.http_url import http_url


class FleetServer:
    """Needs no running loop until it listens. `counts` takes its metrics."""

    def __init__(
        self,
        control: Control,
        certifying: Certifying | None,
        gateway: Gateway | None,
        settings: FleetApi,
        metrics: FleetMetrics,
        counts: CollectorRegistry,
    ) -> None:
        self._settings, self._metrics = settings, metrics
        self._ending = asyncio.Event()
        self._listener: asyncio.Server | None = None
        self._api_metrics = ApiMetrics(counts)
        self._connections = Connections(settings, self._api_metrics)
        room = Room(settings.bodies_bytes_max)
        self._api_metrics.body_bytes.set_function(lambda: room.taken_bytes)
        asking = Asking(settings, room)
        operations = OperationsRoutes(control, settings, self._ending, metrics, counts)
        self.routes = [
            self._timed(checking(route))
            for route in (
                *DeviceRoutes(control, asking, settings).routes(),
                *EnrolmentRoutes(control, certifying, asking, settings, metrics).routes(),
                *GroupRoutes(control, asking).routes(),
                *RolloutRoutes(control, asking, settings, self._ending).routes(),
                *operations.routes(),
            )
        ]  # fmt: skip
        operations.describe(self.routes)
        self._http = HttpServer(
            self.routes, gateway, self._connections, self._count, metrics.unreadable.inc
        )

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator[str]:
        """Serve until the block ends; gives the URL. Requests in hand are answered first.

        Raises `InUse` for a port that is taken, `Malformed` for TLS files that do not fit.
        """
        s = self._settings
        tls = None
        if s.tls_cert is not None and s.tls_key is not None:
            tls = await asyncio.to_thread(server_context, s.tls_cert, s.tls_key, s.devices_ca)
        async with self._http.serving() as protocol:
            try:
                listener = self._listener = await asyncio.get_running_loop().create_server(
                    protocol, s.host, s.port, backlog=1024, ssl=tls
                )
            except OSError as error:
                raise InUse(
                    f"api: cannot listen on {s.host}:{s.port}: {error.strerror}; set api.host and "
                    "api.port to an address that is free, or the port to 0"
                ) from error
            try:
                url = http_url(s.host, listener.sockets[0].getsockname()[1])
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

    def _count(self, problem: Problem) -> None:
        self._api_metrics.problems.labels(str(problem.status.value), problem.kind).inc()

    def _timed(self, route: Route) -> Route:
        inner, seconds = route.handler, self._metrics.requests.labels(route.operation_id)

        async def handler(request: web.Request) -> web.StreamResponse:
            began = time.monotonic()
            response = await inner(request)
            seconds.observe(time.monotonic() - began)
            return response

        return replace(route, handler=handler)
