"""The HTTP API of a registry: its table of routes, and the server that answers by it."""

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
from cloud.gateway.gateway import Gateway
from cloud.registry.api.artifacts import ArtifactRoutes
from cloud.registry.api.asking import Asking, checking
from cloud.registry.api.data_sets import DataSetRoutes
from cloud.registry.api.evaluations import EvaluationRoutes
from cloud.registry.api.metrics import RegistryMetrics
from cloud.registry.api.models import ModelRoutes
from cloud.registry.api.operations import OperationsRoutes
from cloud.registry.api.region import RegionRoutes
from cloud.registry.api.releases import ReleaseRoutes
from cloud.registry.api.settings import RegistryApi
from cloud.registry.api.trust import TrustRoutes
from cloud.registry.api.uploads import UploadRoutes
from cloud.registry.api.versions import VersionRoutes
from cloud.registry.change_counts import ChangeCounts
from cloud.registry.collecting import Collecting
from cloud.registry.registry import Registry
from cloud.registry.released import Released
from cloud.registry.releasing import Releasing
from shared.errors import InUse
from shared.http_url import http_url


class RegistryServer:
    """Needs no running loop until it listens. `counts` takes its metrics."""

    def __init__(
        self,
        registry: Registry,
        collecting: Collecting,
        releasing: Releasing,
        gateway: Gateway | None,
        settings: RegistryApi,
        data_bytes_max: int,
        metrics: RegistryMetrics,
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
        operations = OperationsRoutes(
            registry, asking, collecting, ChangeCounts(registry, metrics), counts
        )
        self.routes = [
            self._timed(checking(route))
            for route in (
                *ModelRoutes(registry, asking).routes(),
                *VersionRoutes(registry, asking).routes(),
                *ReleaseRoutes(releasing, asking).routes(),
                *EvaluationRoutes(registry).routes(),
                *DataSetRoutes(registry, asking, data_bytes_max).routes(),
                *ArtifactRoutes(
                    registry, Released(registry.catalog), asking, settings, metrics
                ).routes(),
                *UploadRoutes(registry, settings, metrics).routes(),
                *TrustRoutes(registry, releasing, asking).routes(),
                *RegionRoutes(registry, asking, settings, self._ending).routes(),
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

        Raises `InUse` for a port that is taken.
        """
        host = self._settings.host
        async with self._http.serving() as protocol:
            try:
                listener = self._listener = await asyncio.get_running_loop().create_server(
                    protocol, host, self._settings.port, backlog=1024
                )
            except OSError as error:
                raise InUse(
                    f"api: cannot listen on {host}:{self._settings.port}: {error.strerror}; set "
                    "api.host and api.port to an address that is free, or the port to 0"
                ) from error
            try:
                yield http_url(host, listener.sockets[0].getsockname()[1])
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
