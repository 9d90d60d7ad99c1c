"""Routes: files on their way into the artifact store, resumable, checked by their hash at the end."""

from collections.abc import AsyncIterator, Iterator
from http import HTTPStatus

from aiohttp import web

from cloud.api.middleware import caller_of
from cloud.api.routes import Route
from cloud.api.turns import Turns
from cloud.gateway.roles import Role
from cloud.registry.api.checked import count_header
from cloud.registry.api.incoming import Incoming
from cloud.registry.api.metrics import RegistryMetrics
from cloud.registry.api.permitting import permit
from cloud.registry.api.settings import RegistryApi
from cloud.registry.catalog.commands import Register
from cloud.registry.registry import Registry
from shared.errors import TooLarge, Unknown

OFFSET, LENGTH = "Upload-Offset", "Upload-Length"
_PATH = "/v1/uploads/{sha256}"
_ENDS = (
    HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE, HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.MISDIRECTED_REQUEST,
)  # fmt: skip


class UploadRoutes:
    def __init__(self, registry: Registry, limits: RegistryApi, metrics: RegistryMetrics) -> None:
        self._registry, self._limits, self._metrics = registry, limits, metrics
        self._turns = Turns("uploads", limits.uploads_max)
        metrics.uploads.set_function(lambda: self._turns.taken)

    def routes(self) -> Iterator[Route]:
        yield Route(
            "HEAD", _PATH, self._offset, "How much of a file is here: where to go on",
            Role.TRAINER, {HTTPStatus.NO_CONTENT: ""}, problems=(HTTPStatus.NOT_FOUND,),
        )  # fmt: skip
        yield Route(
            "PATCH", _PATH, self._append,
            f"The next bytes of a file. Headers {OFFSET}: where they begin, {LENGTH}: of the whole",
            Role.TRAINER, {HTTPStatus.NO_CONTENT: ""}, problems=_ENDS,
        )  # fmt: skip

    async def _offset(self, request: web.Request) -> web.Response:
        sha256, artifacts = request.match_info["sha256"], self._registry.artifacts
        if sha256 in await artifacts.has([sha256]):
            size = await artifacts.size(sha256)
            return _at(size, {LENGTH: str(size)})
        offset = await artifacts.uploads.offset(sha256)
        if offset is None:
            raise Unknown(f"nothing of {sha256} is here; begin at {OFFSET}: 0")
        return _at(offset)

    async def _append(self, request: web.Request) -> web.Response:
        permit(request, Register)
        self._registry.replication.check_writable()
        total = count_header(LENGTH, request.headers.get(LENGTH))
        offset = count_header(OFFSET, request.headers.get(OFFSET))
        declared = request.content_length
        if offset > total or (declared is not None and offset + declared > total):
            raise TooLarge(
                f"{declared or 0} bytes from {offset} on are more than the {total} that "
                f"{LENGTH} says; send those"
            )
        with self._turns.one(caller_of(request)):
            incoming = Incoming(request, self._limits)
            after = await self._registry.artifacts.uploads.append(
                request.match_info["sha256"], total, offset, self._counted(incoming)
            )
            incoming.check()
        return _at(after)

    async def _counted(self, incoming: Incoming) -> AsyncIterator[bytes]:
        async for piece in incoming.pieces():
            self._metrics.received_bytes.inc(len(piece))
            yield piece


def _at(offset: int, more: dict[str, str] | None = None) -> web.Response:
    headers = {OFFSET: str(offset), "Cache-Control": "no-store", **(more or {})}
    return web.Response(status=HTTPStatus.NO_CONTENT, headers=headers)
