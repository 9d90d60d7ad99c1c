"""The HTTP application: the table of routes, its middlewares, and the protocol that answers."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus

from aiohttp import web
from aiohttp.web_protocol import RequestHandler
from prometheus_client import Counter

from cloud.api import results
from cloud.api.connections import Connections
from cloud.api.infer import InferRoutes
from cloud.api.metrics import ApiMetrics
from cloud.api.middleware import guarding, identifying, reporting, response_of
from cloud.api.models import ModelRoutes
from cloud.api.operations import OperationsRoutes
from cloud.api.problems import Problem, http_problem
from cloud.api.record import Record
from cloud.api.repository import RepositoryRoutes
from cloud.api.room import Room
from cloud.api.routes import Route
from cloud.api.schemas import Status
from cloud.api.settings import Api
from cloud.api.statistics import CallStatistics
from cloud.gateway.gateway import Gateway
from cloud.gateway.roles import Role
from cloud.jobs.desk import JobDesk
from cloud.monitoring.answer_log import AnswerLog
from cloud.monitoring.metrics import Metrics
from cloud.monitoring.recent_load import RecentLoad
from cloud.processes.siblings import Siblings
from cloud.processes.together import Together
from cloud.serving.inference import Inference
from cloud.serving.pool import ModelPool
from cloud.serving.settings import Batching
from shared.http_noise import quiet_logger

DRAIN_S_MAX = 5.0


@dataclass(frozen=True, slots=True)
class Parts:
    """What the API is the outside of. No gateway: everybody may do everything."""

    pool: ModelPool
    inference: Inference
    status: Callable[[], Status]
    metrics: Metrics
    batching: Batching
    gateway: Gateway | None = None
    jobs: JobDesk | None = None
    load: RecentLoad = field(default_factory=RecentLoad)
    log: AnswerLog | None = None
    siblings: Siblings | None = None


class ApiServer:
    """The application with what both lanes share: `connections`, `statistics`, `count`."""

    def __init__(self, parts: Parts, settings: Api) -> None:
        """Needs no running loop. Registers its metrics in that of `parts`."""
        self._settings, self._metrics = settings, parts.metrics
        self.api_metrics = ApiMetrics(parts.metrics.registry)
        self.connections = Connections(settings, self.api_metrics)
        self.room = Room(settings.bodies_bytes_max)
        self.api_metrics.body_bytes.set_function(lambda: self.room.taken_bytes)
        self.statistics = CallStatistics()
        self.record = Record(parts.metrics.stage, self.statistics, parts.load, parts.log)
        together = Together(parts.pool, parts.status, parts.metrics, parts.siblings)
        operations = OperationsRoutes(together.status, together.metrics)
        self.routes = list(self._routes(parts, operations, together))
        operations.describe(self.routes)
        self._runner = web.AppRunner(
            self._application(parts.gateway), access_log=None, shutdown_timeout=DRAIN_S_MAX,
            handler_cancellation=True,  # nothing is computed for a client who has left
        )  # fmt: skip

    def count(self, problem: Problem) -> None:
        """An answer that is a problem, of either lane."""
        self.counter_of(problem).inc()

    def counter_of(self, problem: Problem) -> Counter:
        return self.api_metrics.problems.labels(str(problem.status.value), problem.kind)

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[Callable[[], asyncio.Protocol]]:
        """A factory of protocols that answer whatever comes, within the bounds of connections.

        On the way out requests in hand get `DRAIN_S_MAX` seconds.
        """
        await self._runner.setup()
        try:
            server, loop = self._runner.server, asyncio.get_running_loop()
            assert server is not None
            logger = quiet_logger(self._metrics.http_unreadable.inc)

            def protocol() -> asyncio.Protocol:
                return _Protocol(
                    server, loop=loop, logger=logger, auto_decompress=False,
                    access_log=None,  # type: ignore[arg-type]  # aiohttp's word for none
                    keepalive_timeout=self._settings.idle_s_max,
                    lingering_time=self._settings.linger_s_max,
                )  # fmt: skip

            yield self.connections.guarding(protocol)
        finally:
            await self._runner.cleanup()

    def _routes(
        self, parts: Parts, operations: OperationsRoutes, together: Together
    ) -> Iterator[Route]:
        def why_not_ready() -> str | None:
            return parts.status().not_ready_because

        yield from ModelRoutes(parts.pool, self.statistics, parts.batching, why_not_ready).routes()
        yield from InferRoutes(
            parts.pool, parts.inference, parts.jobs, self._settings, self.room, self.record
        ).routes()  # fmt: skip
        yield from RepositoryRoutes(parts.pool.index, together, self._settings, self.room).routes()
        if parts.jobs is not None:
            yield from results.routes(parts.jobs)
        yield from operations.routes()

    def _application(self, gateway: Gateway | None) -> web.Application:
        roles: dict[web.AbstractRoute, Role | None] = {}
        app = web.Application(
            middlewares=[
                identifying(self.connections), reporting(self.count), guarding(gateway, roles),
            ]
        )  # fmt: skip
        for route in self.routes:
            resource = app.router.add_resource(route.path)
            for method in (
                ("GET", "HEAD") if route.method == "GET" and route.head else (route.method,)
            ):
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
