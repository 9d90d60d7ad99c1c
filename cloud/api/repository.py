"""Triton's model repository extension: what there is, load, unload."""

from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from typing import Any, Protocol, TypeVar

from aiohttp import web
from pydantic import BaseModel, ValidationError

from cloud.api import bodies, schemas
from cloud.api.room import Room
from cloud.api.routes import Route, document
from cloud.api.settings import Api
from cloud.gateway.roles import Role
from cloud.serving.pool import IndexEntry
from cloud.serving.served import Served
from shared.config import in_words
from shared.errors import Malformed
from shared.oip.documents import parse

_BODY_BYTES_MAX = 64 * 1024
_OK = HTTPStatus.OK

Body = TypeVar("Body", bound=BaseModel)


class Loading(Protocol):
    """A model pool, or those of all processes of this port."""

    async def load(self, name: str, version: str | None = None) -> Served: ...

    async def unload(self, name: str, version: str | None = None) -> None: ...


class RepositoryRoutes:
    def __init__(
        self, index: Callable[[], Sequence[IndexEntry]], loading: Loading, limits: Api, room: Room
    ) -> None:
        self._index_of, self._loading = index, loading
        self._limits, self._room = limits, room

    def routes(self) -> Iterator[Route]:
        yield Route(
            "POST", "/v2/repository/index", self._index, "Every model and version that is known",
            Role.READ, {_OK: schemas.IndexedModel}, takes=schemas.IndexRequest, many=True,
        )  # fmt: skip
        for verb, handler, summary in (
            ("load", self._load, "Load a model, and swap it in once it is warm"),
            ("unload", self._unload, "Unload a model; what was accepted is still answered"),
        ):
            yield Route(
                "POST", f"/v2/repository/models/{{model}}/{verb}", handler, summary,
                Role.OPERATE, {_OK: schemas.RepositoryAnswer}, takes=schemas.RepositoryRequest,
                problems=(HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE),
            )  # fmt: skip

    async def _index(self, request: web.Request) -> web.Response:
        asked = await self._read(request, schemas.IndexRequest)
        entries = self._index_of()
        return web.json_response([
            {"name": e.name, "version": e.version, "state": e.state, "reason": e.reason}
            for e in entries if e.state == "READY" or not asked.ready
        ])  # fmt: skip

    async def _load(self, request: web.Request) -> web.Response:
        name, version = await self._named(request)
        served = await self._loading.load(name, version)
        return document(schemas.RepositoryAnswer(name=served.name, version=served.version))

    async def _unload(self, request: web.Request) -> web.Response:
        name, version = await self._named(request)
        await self._loading.unload(name, version)
        return document(schemas.RepositoryAnswer(name=name, version=version))

    async def _named(self, request: web.Request) -> tuple[str, str | None]:
        asked = await self._read(request, schemas.RepositoryRequest)
        version = asked.parameters.get("version")
        if version is not None and not isinstance(version, str):
            raise Malformed("parameters.version must be a string, as in the model's metadata")
        for name in asked.parameters:
            if name == "config" or name.startswith("file:"):
                raise Malformed(
                    f"parameters.{name[:40]}: a bundle carries its own configuration and files; "
                    "put the bundle into the models' folder and load it by name"
                )
        return request.match_info["model"], version

    async def _read(self, request: web.Request, kind: type[Body]) -> Body:
        with self._room.share() as share:
            within_s = self._limits.body_s_max
            content = await bodies.read(request, _BODY_BYTES_MAX, within_s, share)
        asked: dict[str, Any] = parse(content, "the body") if content else {}
        try:
            return kind.model_validate(asked)
        except ValidationError as error:
            raise Malformed(in_words(error)[:1000]) from error
