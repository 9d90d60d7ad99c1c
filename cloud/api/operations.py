"""For operators: status, metrics, and what the whole API is."""

import json
from collections.abc import Awaitable, Callable, Iterator
from http import HTTPStatus

from aiohttp import web

from cloud.api import schemas
from cloud.api.openapi import describe
from cloud.api.routes import Route, document
from cloud.experiments.report import Reports
from cloud.gateway.roles import Role

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_OK = HTTPStatus.OK


class OperationsRoutes:
    def __init__(
        self,
        status: Callable[[], Awaitable[schemas.Status]],
        metrics: Callable[[], Awaitable[bytes]],
        experiments: Callable[[], Awaitable[Reports]],
    ) -> None:
        """`metrics`: Prometheus text."""
        self._status, self._metrics, self._experiments = status, metrics, experiments
        self._description = b"{}"

    def routes(self) -> Iterator[Route]:
        yield Route(
            "GET", "/v1/status", self._state, "State of this worker", Role.OBSERVE,
            {_OK: schemas.Status},
        )  # fmt: skip
        yield Route(
            "GET", "/v1/experiments", self._arms, "Versions side by side", Role.OBSERVE,
            {_OK: Reports},
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
        return document(await self._status())

    async def _arms(self, _: web.Request) -> web.Response:
        return document(await self._experiments())

    async def _numbers(self, _: web.Request) -> web.Response:
        return web.Response(body=await self._metrics(), headers={"Content-Type": METRICS_TYPE})

    async def _openapi(self, _: web.Request) -> web.Response:
        return web.Response(body=self._description, content_type="application/json")
