"""Routes: TUF metadata, as devices fetch it and as people hand it in."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from http import HTTPStatus

from aiohttp import web

from cloud.api.asking import Asking, actor_of
from cloud.api.middleware import IDENTITY, response_of
from cloud.api.problems import problem_of
from cloud.api.routes import Route, document, done
from cloud.gateway.roles import Role
from cloud.registry.api import schemas
from cloud.registry.api.permitting import permit
from cloud.registry.catalog.commands import PublishTrust
from cloud.registry.registry import Registry
from cloud.registry.releasing import Releasing
from cloud.registry.trust.repository import Prepared
from shared.errors import Unknown
from shared.trust.names import bytes_max, parse_file_name

_OK, _MISSING = HTTPStatus.OK, HTTPStatus.NOT_FOUND


class TrustRoutes:
    def __init__(self, registry: Registry, releasing: Releasing, asking: Asking) -> None:
        self._registry, self._releasing, self._asking = registry, releasing, asking

    def routes(self) -> Iterator[Route]:
        yield Route(
            "GET", "/tuf/{file}", self._file,
            "Trust metadata by its name: 1.root.json, timestamp.json, 7.model-NAME.json",
            Role.FETCH, {_OK: "application/json", HTTPStatus.NOT_MODIFIED: ""},
            problems=(_MISSING,),
        )  # fmt: skip
        yield Route(
            "GET", "/v1/trust", self._status,
            "Every role's version, expiry and keys; what waits for signatures", Role.VIEWER,
            {_OK: schemas.TrustState},
        )  # fmt: skip
        yield Route(
            "POST", "/v1/trust/{role}", self._publish,
            "Hand in signed metadata: published when enough keys have signed it", Role.OPERATOR,
            {_OK: schemas.TrustAnswer}, takes=schemas.TrustRequest,
            problems=(
                HTTPStatus.CONFLICT, HTTPStatus.MISDIRECTED_REQUEST,
                HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.TOO_MANY_REQUESTS,
            ),
        )  # fmt: skip
        yield Route(
            "GET", "/v1/trust/{role}/staged", self._staged,
            "What waits for signatures, as it was handed in: for the next one who signs",
            Role.VIEWER, {_OK: "application/json"}, problems=(_MISSING,),
        )  # fmt: skip
        yield Route(
            "DELETE", "/v1/trust/{role}/staged", self._discard,
            "Forget what waits for signatures", Role.OPERATOR, {HTTPStatus.NO_CONTENT: ""},
            problems=(HTTPStatus.MISDIRECTED_REQUEST,),
        )  # fmt: skip

    async def _file(self, request: web.Request) -> web.Response:
        role, version = parse_file_name(request.match_info["file"])
        registry = self._registry
        try:
            file = await registry.read(registry.catalog.trust_file, role, version)
        except (
            Unknown
        ) as error:  # every device asks for the root after the newest: no refusal to note
            return response_of(problem_of(error), request[IDENTITY].request_id)
        etag = f'"{file.sha256}"'
        # what has a version in its name never changes
        headers = {
            "ETag": etag,
            "Cache-Control": "no-cache" if version is None else "max-age=86400",
        }
        if request.headers.get("If-None-Match") == etag:
            return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
        content = await registry.artifacts.read(file.sha256, bytes_max(role))
        return web.Response(body=content, content_type="application/json", headers=headers)

    async def _status(self, _: web.Request) -> web.Response:
        now = datetime.fromtimestamp(self._registry.now(), UTC)
        status = await self._releasing.trust.status(now)
        return document(await asyncio.to_thread(schemas.TrustState.model_validate, status))

    async def _publish(self, request: web.Request) -> web.Response:
        permit(request, PublishTrust)
        asked = await self._asking.read(request, schemas.TrustRequest)
        role = request.match_info["role"]
        prepared = await self._releasing.publish(role, asked.metadata, actor_of(request))
        return document(_answer(prepared))

    async def _staged(self, request: web.Request) -> web.Response:
        role = request.match_info["role"]
        content = await self._releasing.trust.staged(role)
        if content is None:
            raise Unknown(f"nothing waits for signatures of {role}")
        return web.Response(
            body=content, content_type="application/json", headers={"Cache-Control": "no-store"}
        )

    async def _discard(self, request: web.Request) -> web.Response:
        permit(request, PublishTrust)
        await self._releasing.discard(request.match_info["role"])
        return done()


def _answer(prepared: Prepared) -> schemas.TrustAnswer:
    return schemas.TrustAnswer(
        published=dict(prepared.versions),
        waiting=tuple(schemas.TrustWaiting.model_validate(one) for one in prepared.waiting),
    )
