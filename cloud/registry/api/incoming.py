"""The body of an upload as it comes: never held whole, never waited for without an end."""

import asyncio
from collections.abc import AsyncIterator

from aiohttp import web

from cloud.api.bodies import CONNECTIONS
from cloud.api.problems import SlowBody, UnknownEncoding
from cloud.registry.api.settings import RegistryApi
from shared.errors import Malformed


class Incoming:
    """Its `pieces` end where nothing more comes, for whatever reason: so what came is kept, to the
    last byte, and a link that is cut every few seconds gets a file across all the same. Ask
    `check` afterwards.
    """

    def __init__(self, request: web.Request, limits: RegistryApi) -> None:
        """Raises `UnknownEncoding`: a hash is of what is stored, so that is what is sent."""
        encoding = request.headers.get("Content-Encoding", "identity")
        if encoding.strip().lower() != "identity":
            raise UnknownEncoding("an upload is sent as it is, without Content-Encoding")
        self._request, self._limits = request, limits
        self._error: BaseException | None = None

    def check(self) -> None:
        """Raises what ended it.

        SlowBody: silent for too long, or not done in time.
        Malformed: cut short.
        CancelledError: the client has left.
        """
        if self._error is not None:
            raise self._error

    async def pieces(self) -> AsyncIterator[bytes]:
        request, loop = self._request, asyncio.get_running_loop()
        if "Expect" in request.headers:
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0
        ends = loop.time() + self._limits.upload_s_max
        while True:
            try:
                with request[CONNECTIONS].awaiting_body(request.transport):
                    until = min(ends, loop.time() + self._limits.upload_silence_s_max)
                    async with asyncio.timeout_at(until):
                        chunk = await request.content.readany()
            except TimeoutError:
                self._error = SlowBody(
                    "the upload was silent or took too long; what came is kept: ask HEAD and go on"
                )
                return
            except web.RequestPayloadError as error:
                self._error = Malformed(
                    f"the upload is cut short: {str(error)[:200]}; ask HEAD and go on"
                )
                return
            except asyncio.CancelledError as error:
                self._error = error
                return
            if not chunk:
                return
            yield chunk
