"""For operators: status, metrics, and what the whole API is."""

import json
from collections.abc import Callable, Iterator
from http import HTTPStatus

from aiohttp import web

from cloud.api import schemas
from cloud.api.openapi import describe
from cloud.api.routes import Route, document
from cloud.gateway.roles import Role
from cloud.monitoring.metrics import Metrics

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_OK = HTTPStatus.OK


class OperationsRoutes:
    def __init__(self, status: Callable[[], schemas.Status], metrics: Metrics) -> None:
        self._status, self._metrics = status, metrics
        self._description = b"{}"

    def routes(self) -> Iterator[Route]:
        yield Route(
            "GET", "/v1/status", self._state, "State of this worker", Role.OBSERVE,
            {_OK: schemas.Status},
        )  # fmt: skip
        yield Route(
            "GET", "/metrics", self._numbers, "Prometheus metrics", Role.OBSERVE,
            {_OK: "text/plain"},
        )  # fmt: skip
        yield Route(
            "GET", "/openapi.json", self._openapi, "This document", None, {_OK: "application/json"}
        )

    def describe(self, routes: list[Route]) -> None:
        """What `/openapi.json` says, once all routes are known."""
        self._description = json.dumps(describe(routes), indent=1).encode()

    async def _state(self, _: web.Request) -> web.Response:
        return document(self._status())

    async def _numbers(self, _: web.Request) -> web.Response:
        for model in self._status().models:
            self._metrics.queue_depth.labels(model.name).set(model.queue_depth)
        return web.Response(body=self._metrics.text(), headers={"Content-Type": METRICS_TYPE})

    async def _openapi(self, _: web.Request) -> web.Response:
        return web.Response(body=self._description, content_type="application/json")
