"""Routes: what is missing, releases and retirements."""

from collections.abc import Iterator
from http import HTTPStatus

from aiohttp import web

from cloud.api.asking import Asking, actor_of, revision_of
from cloud.api.routes import Route, document, revised
from cloud.gateway.roles import Role
from cloud.registry.api import schemas
from cloud.registry.api.permitting import permit
from cloud.registry.catalog.commands import Release, Retire
from cloud.registry.documents import ModelVersion
from cloud.registry.releasing import Releasing

_OK, _MISSING = HTTPStatus.OK, HTTPStatus.NOT_FOUND
_CHANGES = (
    _MISSING, HTTPStatus.CONFLICT, HTTPStatus.MISDIRECTED_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY,
)  # fmt: skip
_PATH = "/v1/models/{model}/versions/{version}"


class ReleaseRoutes:
    def __init__(self, releasing: Releasing, asking: Asking) -> None:
        self._releasing, self._asking = releasing, asking

    def routes(self) -> Iterator[Route]:
        yield Route(
            "GET", _PATH + "/checklist", self._checklist,
            "What is missing before a version may be released", Role.VIEWER,
            {_OK: schemas.Checklist}, problems=(_MISSING,),
        )  # fmt: skip
        yield Route(
            "POST", _PATH + "/release", self._release,
            "Release a candidate that lacks nothing, with signed metadata that names it",
            Role.OPERATOR, {_OK: ModelVersion}, takes=schemas.ReleaseRequest, problems=_CHANGES,
        )  # fmt: skip
        yield Route(
            "POST", _PATH + "/retire", self._retire,
            "Call a release back, with signed metadata that leaves it out", Role.OPERATOR,
            {_OK: ModelVersion}, takes=schemas.ReleaseRequest, problems=_CHANGES,
        )  # fmt: skip

    async def _checklist(self, request: web.Request) -> web.Response:
        lacks = await self._releasing.checklist(
            request.match_info["model"], request.match_info["version"]
        )
        return document(schemas.Checklist(missing=tuple(lacks)))

    async def _release(self, request: web.Request) -> web.Response:
        permit(request, Release)
        revision = revision_of(request)
        asked = await self._asking.read(request, schemas.ReleaseRequest)
        model, version = request.match_info["model"], request.match_info["version"]
        command = Release(model, version, asked.comment, 0, revision)
        return revised(
            await self._releasing.release(command, asked.metadata, actor_of(request))
        )  # fmt: skip

    async def _retire(self, request: web.Request) -> web.Response:
        permit(request, Retire)
        revision = revision_of(request)
        asked = await self._asking.read(request, schemas.ReleaseRequest)
        model, version = request.match_info["model"], request.match_info["version"]
        command = Retire(model, version, asked.comment, 0, revision)
        return revised(await self._releasing.retire(command, asked.metadata, actor_of(request)))
