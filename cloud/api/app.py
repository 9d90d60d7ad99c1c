"""The API of the inference tier: what it is the outside of, and its table of routes."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from prometheus_client import Counter

from cloud.api import results
from cloud.api.connections import Connections
from cloud.api.http_server import HttpServer
from cloud.api.infer import InferRoutes
from cloud.api.metrics import ApiMetrics
from cloud.api.models import ModelRoutes
from cloud.api.operations import OperationsRoutes
from cloud.api.problems import Problem
from cloud.api.record import Record
from cloud.api.repository import RepositoryRoutes
from cloud.api.room import Room
from cloud.api.routes import Route
from cloud.api.schemas import Status
from cloud.api.settings import Api
from cloud.api.statistics import CallStatistics
from cloud.experiments.experiments import Experiments
from cloud.gateway.gateway import Gateway
from cloud.jobs.desk import JobDesk
from cloud.monitoring.answer_log import AnswerLog
from cloud.monitoring.metrics import Metrics
from cloud.monitoring.recent_load import RecentLoad
from cloud.processes.siblings import Siblings
from cloud.processes.together import Together
from cloud.serving.inference import Inference
from cloud.serving.pool import ModelPool
from cloud.serving.settings import Batching


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
    experiments: Experiments | None = None


class ApiServer:
    """The application with what both lanes share: `connections`, `statistics`, `count`."""

    def __init__(self, parts: Parts, settings: Api) -> None:
        """Needs no running loop. Registers its metrics in that of `parts`."""
        self._settings = settings
        self.api_metrics = ApiMetrics(parts.metrics.registry)
        self.connections = Connections(settings, self.api_metrics)
        self.room = Room(settings.bodies_bytes_max)
        self.api_metrics.body_bytes.set_function(lambda: self.room.taken_bytes)
        self.statistics = CallStatistics()
        self.record = Record(parts.metrics.stage, self.statistics, parts.load, parts.log)
        together = Together(
            parts.pool, parts.status, parts.metrics, parts.siblings, parts.experiments
        )
        operations = OperationsRoutes(together.status, together.metrics, together.experiments)
        self.routes = list(self._routes(parts, operations, together))
        operations.description.describe(self.routes)
        self.http = HttpServer(
            self.routes, parts.gateway, self.connections, self.count,
            parts.metrics.http_unreadable.inc,
        )  # fmt: skip

    def count(self, problem: Problem) -> None:
        """An answer that is a problem, of either lane."""
        self.counter_of(problem).inc()

    def counter_of(self, problem: Problem) -> Counter:
        return self.api_metrics.problems.labels(str(problem.status.value), problem.kind)

    def serving(self) -> AbstractAsyncContextManager[Callable[[], asyncio.Protocol]]:
        """As `HttpServer.serving`."""
        return self.http.serving()

    def _routes(
        self, parts: Parts, operations: OperationsRoutes, together: Together
    ) -> Iterator[Route]:
        def why_not_ready() -> str | None:
            return parts.status().not_ready_because

        yield from ModelRoutes(parts.pool, self.statistics, parts.batching, why_not_ready).routes()
        yield from InferRoutes(
            parts.pool, parts.inference, parts.jobs, self._settings, self.room, self.record,
            parts.experiments,
        ).routes()  # fmt: skip
        yield from RepositoryRoutes(parts.pool.index, together, self._settings, self.room).routes()
        if parts.jobs is not None:
            yield from results.routes(parts.jobs)
        yield from operations.routes()
