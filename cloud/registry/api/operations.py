"""Routes for operators: health, metrics, garbage, and what the whole API is."""

import json
from collections.abc import Iterator
from http import HTTPStatus

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest

from cloud.api.openapi import describe
from cloud.api.operations import METRICS_TYPE
from cloud.api.routes import Route, document
from cloud.gateway.roles import Role
from cloud.registry.api import schemas
from cloud.registry.api.asking import Asking, actor_of
from cloud.registry.change_counts import ChangeCounts
from cloud.registry.collecting import Collecting
from cloud.registry.registry import Registry

_OK = HTTPStatus.OK
_TITLE = "Hybridge registry"
_ABOUT = (
    "Models, versions, evaluations and releases; artifacts by hash; TUF metadata. Errors are "
    "problem details (RFC 9457)."
)


class OperationsRoutes:
    def __init__(
        self,
        registry: Registry,
        asking: Asking,
        collecting: Collecting,
        changes: ChangeCounts,
        counts: CollectorRegistry,
    ) -> None:
        self._registry, self._asking = registry, asking
        self._collecting, self._changes, self._counts = collecting, changes, counts
        self._description = b"{}"

    def routes(self) -> Iterator[Route]:
        yield Route(
            "GET", "/healthz", self._health, "Whether this process answers", None,
            {_OK: schemas.Healthy},
        )  # fmt: skip
        yield Route(
            "GET", "/metrics", self._metrics, "Prometheus metrics", Role.VIEWER,
            {_OK: "text/plain"},
        )  # fmt: skip
        yield Route(
            "POST", "/v1/gc", self._collect,
            "Remove the artifacts that nothing needs; with `dry_run` only say which",
            Role.OPERATOR, {_OK: schemas.CollectAnswer}, takes=schemas.CollectRequest,
            problems=(HTTPStatus.CONFLICT,),
        )  # fmt: skip
        yield Route(
            "GET", "/openapi.json", self._openapi, "This document", None, {_OK: "application/json"}
        )

    def describe(self, routes: list[Route]) -> None:
        """What `/openapi.json` says, once all routes are known."""
        self._description = json.dumps(describe(routes, _TITLE, _ABOUT), indent=1).encode()

    async def _health(self, _: web.Request) -> web.Response:
        status = self._registry.replication.status()
        return document(schemas.Healthy(live=True, role=status.role, seq=status.seq))

    async def _metrics(self, _: web.Request) -> web.Response:
        await self._changes.look()
        return web.Response(
            body=generate_latest(self._counts), headers={"Content-Type": METRICS_TYPE}
        )

    async def _collect(self, request: web.Request) -> web.Response:
        asked = await self._asking.read(request, schemas.CollectRequest)
        found = await self._collecting.collect(dry_run=asked.dry_run, actor=actor_of(request))
        return document(
            schemas.CollectAnswer(
                artifacts=len(found.removed), uploads=len(found.uploads), bytes=found.freed_bytes,
                kept=found.kept, young=found.young, busy=found.busy, dry_run=found.dry_run,
            )
        )  # fmt: skip

    async def _openapi(self, _: web.Request) -> web.Response:
        return web.Response(body=self._description, content_type="application/json")
