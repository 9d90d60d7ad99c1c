"""Routes for operators: health, metrics and garbage."""

from collections.abc import Iterator
from http import HTTPStatus

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest

from cloud.api import about
from cloud.api.asking import Asking, actor_of
from cloud.api.routes import Route, document
from cloud.gateway.roles import Role
from cloud.registry.api import schemas
from cloud.registry.change_counts import ChangeCounts
from cloud.registry.collecting import Collecting
from cloud.registry.registry import Registry

_OK = HTTPStatus.OK


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

    def routes(self) -> Iterator[Route]:
        yield about.health(self._health, schemas.Healthy)
        yield about.metrics(self._metrics_text, Role.VIEWER)
        yield Route(
            "POST", "/v1/gc", self._collect,
            "Remove the artifacts that nothing needs; with `dry_run` only say which",
            Role.OPERATOR, {_OK: schemas.CollectAnswer}, takes=schemas.CollectRequest,
            problems=(HTTPStatus.CONFLICT,),
        )  # fmt: skip

    async def _health(self, _: web.Request) -> web.Response:
        status = self._registry.replication.status()
        return document(schemas.Healthy(live=True, role=status.role, seq=status.seq))

    async def _metrics_text(self) -> bytes:
        await self._changes.look()
        return generate_latest(self._counts)

    async def _collect(self, request: web.Request) -> web.Response:
        asked = await self._asking.read(request, schemas.CollectRequest)
        found = await self._collecting.collect(dry_run=asked.dry_run, actor=actor_of(request))
        return document(
            schemas.CollectAnswer(
                artifacts=len(found.removed), uploads=len(found.uploads), bytes=found.freed_bytes,
                kept=found.kept, young=found.young, busy=found.busy, dry_run=found.dry_run,
            )
        )  # fmt: skip
