"""Routes: artifacts by their hash. Devices fetch what is released, by range and over again."""

import logging
import time
from collections.abc import Iterator
from http import HTTPStatus

from aiohttp import web

from cloud.api.asking import Asking
from cloud.api.middleware import IDENTITY, caller_of
from cloud.api.routes import Route, document
from cloud.api.turns import Turns
from cloud.gateway.roles import Role
from cloud.registry.api import schemas
from cloud.registry.api.metrics import RegistryMetrics
from cloud.registry.api.permitting import roles_of
from cloud.registry.api.ranges import part_of
from cloud.registry.api.settings import RegistryApi
from cloud.registry.registry import Registry
from cloud.registry.released import Released
from shared.errors import HybridgeError, Unknown
from shared.logs import OncePer

_LOG_PERIOD_S = 60.0
_FOR_EVER = "private, max-age=31536000, immutable"
_OK, _MISSING = HTTPStatus.OK, HTTPStatus.NOT_FOUND

log = logging.getLogger(__name__)


class ArtifactRoutes:
    def __init__(
        self,
        registry: Registry,
        released: Released,
        asking: Asking,
        limits: RegistryApi,
        metrics: RegistryMetrics,
    ) -> None:
        self._registry, self._released, self._asking = registry, released, asking
        self._downloads = Turns("downloads", limits.downloads_max)
        self._metrics = metrics
        self._once = OncePer(_LOG_PERIOD_S)
        metrics.downloads.set_function(lambda: self._downloads.taken)

    def routes(self) -> Iterator[Route]:
        yield Route(
            "GET", "/v1/artifacts/{sha256}", self._get,
            "A file by its hash, by range where it is asked for; to devices what is released",
            Role.FETCH,
            {
                _OK: "application/octet-stream", HTTPStatus.PARTIAL_CONTENT: "",
                HTTPStatus.NOT_MODIFIED: "", HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE: "",
            },
            problems=(_MISSING, HTTPStatus.TOO_MANY_REQUESTS),
        )  # fmt: skip
        yield Route(
            "GET", "/v1/artifacts/{sha256}/deltas", self._deltas,
            "Shorter ways to a file for who has an older one", Role.FETCH,
            {_OK: schemas.Deltas}, problems=(_MISSING,),
        )  # fmt: skip
        yield Route(
            "POST", "/v1/artifacts/missing", self._missing,
            "Which of these are not here; the others stay for a day, needed or not", Role.TRAINER,
            {_OK: schemas.Missing}, takes=schemas.MissingRequest,
        )  # fmt: skip

    async def _get(self, request: web.Request) -> web.StreamResponse:
        sha256 = request.match_info["sha256"]
        await self._check_may_see(request, sha256)
        reader = await self._registry.artifacts.open(sha256)
        etag = f'"{sha256}"'
        part = part_of(request.headers, etag, reader.bytes)
        response = web.StreamResponse(
            status=part.status,
            headers={
                "ETag": etag, "Accept-Ranges": "bytes", "Cache-Control": _FOR_EVER,
                "Content-Type": "application/octet-stream", "X-Content-Type-Options": "nosniff",
                **part.headers, **request[IDENTITY].headers,
            },
        )  # fmt: skip
        if part.status is not HTTPStatus.NOT_MODIFIED:
            response.content_length = part.end - part.start
        if part.start == part.end or request.method == "HEAD":
            await response.prepare(request)
            return response
        with self._downloads.one(caller_of(request)):
            await response.prepare(request)
            try:
                async for piece in reader.ranges(part.start, part.end):
                    await response.write(piece)
                    self._metrics.sent_bytes.inc(len(piece))
            except HybridgeError as error:  # the head is out: all that is left is to cut it short
                self._note_cut(sha256, error)
                if request.transport is not None:
                    request.transport.abort()
        return response

    async def _deltas(self, request: web.Request) -> web.Response:
        sha256 = request.match_info["sha256"]
        await self._check_may_see(request, sha256)
        deltas = await self._registry.read(self._registry.catalog.deltas_to, sha256)
        return document(schemas.Deltas(deltas=tuple(deltas)))

    async def _missing(self, request: web.Request) -> web.Response:
        asked = await self._asking.read(request, schemas.MissingRequest)
        here = await self._registry.artifacts.has(asked.sha256)
        missing = dict.fromkeys(sha256 for sha256 in asked.sha256 if sha256 not in here)
        return document(schemas.Missing(missing=tuple(missing)))

    async def _check_may_see(self, request: web.Request, sha256: str) -> None:
        """Raises `Unknown` where a device asks for what is not released: it learns nothing more."""
        if Role.VIEWER in roles_of(request):
            return
        if not await self._released.has(sha256):
            raise Unknown(f"there is no released artifact {sha256}")

    def _note_cut(self, sha256: str, error: HybridgeError) -> None:
        self._metrics.downloads_cut.inc()
        if (held_back := self._once.admits(type(error).__name__, time.monotonic())) is not None:
            log.error(
                "download_cut",
                extra={"sha256": sha256, "why": str(error), "more_since_last": held_back},
            )
