"""Routes for operators: all of it in figures, health and metrics."""

import asyncio
from collections.abc import Iterator
from http import HTTPStatus

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest

from cloud.api import about
from cloud.api.routes import Route, document
from cloud.gateway.roles import Role
from cloud.learning.api import schemas
from cloud.learning.parts import Parts
from cloud.training.documents import JobState

_OK = HTTPStatus.OK


class OperationsRoutes:
    def __init__(self, parts: Parts, counts: CollectorRegistry) -> None:
        self._parts, self._counts = parts, counts

    def routes(self) -> Iterator[Route]:
        yield Route(
            "GET", "/v1/learning", self._state, "Feedback, training and loops in figures",
            Role.VIEWER, {_OK: schemas.LearningState},
        )  # fmt: skip
        yield about.health(self._health, schemas.Healthy)
        yield about.metrics(self._metrics_text, Role.VIEWER)

    async def _state(self, _: web.Request) -> web.Response:
        parts = self._parts
        feedback = await asyncio.to_thread(parts.feedback.state)
        loops = await parts.desk.loops()
        running = [one.cycle for one in loops if one.cycle is not None]
        jobs = await parts.queue.counts()
        return document(schemas.LearningState(
            name=parts.name, feedback_rows=feedback.rows, data_sets=feedback.data_sets,
            jobs={state: jobs.get(state.value, 0) for state in JobState},
            workers=len(await parts.queue.workers()), loops=len(loops),
            cycles_running=len(running),
            asking=sum(one.asks is not None for one in running),
            checks_failed=await parts.checking.failed(),
        ))  # fmt: skip

    async def _health(self, _: web.Request) -> web.Response:
        return document(schemas.Healthy(live=True))

    async def _metrics_text(self) -> bytes:
        parts = self._parts
        parts.metrics.rows.set((await asyncio.to_thread(parts.feedback.state)).rows)
        jobs = await parts.queue.counts()
        for state in JobState:
            parts.metrics.jobs.labels(state.value).set(jobs.get(state.value, 0))
        return generate_latest(self._counts)
