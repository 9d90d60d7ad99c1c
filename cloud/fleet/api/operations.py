"""Routes for operators: the fleet as a whole, its log, health and metrics."""

import asyncio
from collections.abc import Iterator
from http import HTTPStatus

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest

from cloud.api import about
from cloud.api.asking import QUERY, number_of, wait_s_of
from cloud.api.middleware import caller_of
from cloud.api.routes import Query, Route, document
from cloud.api.turns import Turns
from cloud.fleet.api import schemas
from cloud.fleet.api.checked import PATHS
from cloud.fleet.api.settings import FleetApi
from cloud.fleet.control import Control
from cloud.fleet.metrics import FleetMetrics
from cloud.gateway.roles import Role

_OK = HTTPStatus.OK


class OperationsRoutes:
    def __init__(
        self, control: Control, limits: FleetApi, ending: asyncio.Event, metrics: FleetMetrics,
        counts: CollectorRegistry,
    ) -> None:  # fmt: skip
        """`ending` is set when this process takes nothing new."""
        self._control, self._limits, self._ending = control, limits, ending
        self._metrics, self._counts = metrics, counts
        self._waits = Turns("questions that wait for the log", limits.waits_max)

    def routes(self) -> Iterator[Route]:
        yield Route(
            "GET", "/v1/fleet", self._state, "The fleet in figures", Role.VIEWER,
            {_OK: schemas.FleetState},
        )  # fmt: skip
        yield Route(
            "POST", "/v1/fleet/publish", self._publish,
            "Publish all desired state again, for a broker that lost what it retained",
            Role.OPERATOR, {HTTPStatus.ACCEPTED: schemas.PublishAnswer}, takes=schemas.Nothing,
        )  # fmt: skip
        yield Route(
            "GET", "/v1/events", self._events,
            "The fleet's log, the oldest first; waits up to `wait_s` seconds for the first line",
            Role.VIEWER, {_OK: schemas.Events}, problems=(HTTPStatus.TOO_MANY_REQUESTS,),
            queries=(
                Query("after", minimum=0, maximum=2**53), Query("limit", minimum=1, maximum=1000),
                Query("wait_s"), Query("device"), Query("rollout"),
            ),
        )  # fmt: skip
        yield about.health(self._health, schemas.Healthy)
        yield about.metrics(self._metrics_text, Role.VIEWER)

    async def _state(self, _: web.Request) -> web.Response:
        control = self._control
        devices, online = await asyncio.to_thread(control.fleet.counts)
        head = await asyncio.to_thread(control.fleet.head)
        return document(
            schemas.FleetState(
                name=control.name, devices=devices, online=online,
                rollouts=control.driver.count, head=head, broker=control.publishing.connected,
                unpublished=not control.publishing.is_published,
            )
        )  # fmt: skip

    async def _publish(self, _: web.Request) -> web.Response:
        count = await self._control.publishing.everything()
        return document(schemas.PublishAnswer(messages=count), HTTPStatus.ACCEPTED)

    async def _events(self, request: web.Request) -> web.Response:
        query = request[QUERY]
        after, limit = number_of(request, "after", 0), number_of(request, "limit", 500)
        wait_s = wait_s_of(request, self._limits.wait_s_max)
        device, rollout = query.get("device"), query.get("rollout")
        for name, value in (("device", device), ("rollout", rollout)):
            if value is not None:
                PATHS.check(name, value)
        ends = asyncio.get_running_loop().time() + wait_s
        with self._waits.one(caller_of(request)):
            while True:
                head = self._control.happened.head
                found = await asyncio.to_thread(
                    self._control.fleet.events, after, limit, device=device, rollout=rollout
                )
                left = ends - asyncio.get_running_loop().time()
                if found or left <= 0 or self._ending.is_set():
                    return document(schemas.Events(events=tuple(found)))
                await self._control.happened.beyond(max(head, after), left, self._ending)

    async def _health(self, _: web.Request) -> web.Response:
        return document(schemas.Healthy(live=True, broker=self._control.publishing.connected))

    async def _metrics_text(self) -> bytes:
        devices, online = await asyncio.to_thread(self._control.fleet.counts)
        self._metrics.devices.set(devices)
        self._metrics.online.set(online)
        return generate_latest(self._counts)
