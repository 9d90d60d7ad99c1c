"""An artifact of a run as an HTTP answer."""

import logging
from contextlib import aclosing
from http import HTTPStatus

from aiohttp import web

from cloud.api.middleware import IDENTITY
from cloud.registry.artifacts.blobs import Blobs
from cloud.training.documents import Artifact
from shared.errors import HybridgeError

log = logging.getLogger(__name__)


async def sent(request: web.Request, blobs: Blobs, artifact: Artifact) -> web.StreamResponse:
    """The whole file; whoever asks has its hash and checks it."""
    etag = f'"{artifact.sha256}"'
    is_known = request.headers.get("If-None-Match") == etag
    response = web.StreamResponse(
        status=HTTPStatus.NOT_MODIFIED if is_known else HTTPStatus.OK,
        headers={
            "ETag": etag, "Content-Type": "application/octet-stream",
            "X-Content-Type-Options": "nosniff", **request[IDENTITY].headers,
        },
    )  # fmt: skip
    if not is_known:
        response.content_length = artifact.bytes
    if is_known or request.method == "HEAD" or not artifact.bytes:
        await response.prepare(request)
        return response
    async with aclosing(blobs.ranges(artifact.sha256, 0, artifact.bytes)) as parts:
        first = await anext(parts, b"")  # whether it is there, before the head goes out
        await response.prepare(request)
        try:
            await response.write(first)
            async for part in parts:
                await response.write(part)
        except HybridgeError as error:  # all that is left is to cut it short
            log.error("artifact_cut", extra={"sha256": artifact.sha256, "why": str(error)})  # noqa: TRY400
            if request.transport is not None:
                request.transport.abort()
    return response
