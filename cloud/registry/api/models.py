"""Routes: models, and what happened to them."""

from collections.abc import Iterator
from http import HTTPStatus

from aiohttp import web

from cloud.api.asking import QUERY, Asking, number_of, revision_of
from cloud.api.routes import Query, Route, document, revised
from cloud.gateway.roles import Role
from cloud.registry.api import schemas
from cloud.registry.api.checked import check_version
from cloud.registry.api.permitting import apply, permit
from cloud.registry.catalog.commands import SetModel
from cloud.registry.documents import Model
from cloud.registry.evaluation.rules import parse as parse_rule
from cloud.registry.registry import Registry

HISTORY_MAX = 1000
_OK, _MISSING, _CONFLICT = HTTPStatus.OK, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT
_ELSEWHERE = HTTPStatus.MISDIRECTED_REQUEST


class ModelRoutes:
    def __init__(self, registry: Registry, asking: Asking) -> None:
        self._registry, self._asking = registry, asking

    def routes(self) -> Iterator[Route]:
        yield Route(
            "GET", "/v1/models", self._list, "Every model", Role.VIEWER, {_OK: schemas.Models}
        )
        yield Route(
            "GET", "/v1/models/{model}", self._get, "A model: its gate, and its current release",
            Role.VIEWER, {_OK: Model}, problems=(_MISSING,),
        )  # fmt: skip
        yield Route(
            "PUT", "/v1/models/{model}", self._set,
            "Make a model, or change its owner or its gate (an existing gate: approver)",
            Role.VIEWER, {_OK: Model}, takes=schemas.ModelRequest,
            problems=(_MISSING, _CONFLICT, _ELSEWHERE),
        )  # fmt: skip
        yield Route(
            "GET", "/v1/models/{model}/history", self._history,
            "What happened to a model or one of its versions, the newest first", Role.VIEWER,
            {_OK: schemas.Entries}, problems=(_MISSING,),
            queries=(Query("version"), Query("limit", minimum=1, maximum=HISTORY_MAX)),
        )  # fmt: skip

    async def _list(self, _: web.Request) -> web.Response:
        models = await self._registry.read(self._registry.catalog.models)
        return document(schemas.Models(models=tuple(models)))

    async def _get(self, request: web.Request) -> web.Response:
        catalog = self._registry.catalog
        return revised(await self._registry.read(catalog.model, request.match_info["model"]))

    async def _set(self, request: web.Request) -> web.Response:
        permit(request, SetModel)
        revision = revision_of(request)
        asked = await self._asking.read(request, schemas.ModelRequest)
        if asked.gate is not None:
            parse_rule(asked.gate.rules)
        name = request.match_info["model"]
        await apply(self._registry, request, SetModel(name, asked.owner, asked.gate, revision))
        return revised(await self._registry.read(self._registry.catalog.model, name))

    async def _history(self, request: web.Request) -> web.Response:
        entries = await self._registry.read(
            self._registry.catalog.history, request.match_info["model"],
            check_version(request[QUERY].get("version")), number_of(request, "limit", 100),
        )  # fmt: skip
        return document(schemas.Entries(entries=tuple(entries)))
