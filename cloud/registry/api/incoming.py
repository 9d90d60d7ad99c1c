"""The body of an upload as it comes: never held whole, never waited for without an end."""

import asyncio
from collections.abc import AsyncIterator

from aiohttp import web

from cloud.api.bodies import CONNECTIONS
from cloud.api.problems import SlowBody, UnknownEncoding
from cloud.registry.api.settings import RegistryApi
from shared.errors import Malformed


async def incoming(request: web.Request, limits: RegistryApi) -> AsyncIterator[bytes]:
    """The bytes as they come, none of them lost to an error that follows.

    Raises:
        SlowBody: silent for too long, or not done in time.
        Malformed: cut short.
        UnknownEncoding: packed; a hash is of what is stored, so that is what is sent.

    """
    encoding = request.headers.get("Content-Encoding", "identity")
    if encoding.strip().lower() != "identity":
        raise UnknownEncoding("an upload is sent as it is, without Content-Encoding")
    if "Expect" in request.headers:
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0
    loop = asyncio.get_running_loop()
    ends = loop.time() + limits.upload_s_max
    while True:
        try:
            with request[CONNECTIONS].awaiting_body(request.transport):
                until = min(ends, loop.time() + limits.upload_silence_s_max)
                async with asyncio.timeout_at(until):
                    chunk = await request.content.readany()
        except TimeoutError as error:
            raise SlowBody(
                "the upload was silent or took too long; what came is kept: ask HEAD and go on"
            ) from error
        except web.RequestPayloadError as error:
            raise Malformed(
                f"the upload is cut short: {str(error)[:200]}; ask HEAD and go on"
            ) from error
        if not chunk:
            return
        yield chunk
