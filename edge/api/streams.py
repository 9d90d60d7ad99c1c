"""Final answers and corrections as server-sent events (WHATWG HTML, section 9.2)."""

import asyncio
import json
import logging

from aiohttp import web

from edge.answers import Answer, Answering, Corrections
from edge.api.answers import document
from edge.api.settings import Limits
from edge.telemetry.counters import Counters
from shared.errors import Overloaded, Unavailable

log = logging.getLogger(__name__)


class StreamRoutes:
    """A slow reader is closed and counted (`stream_slow`); nobody else waits for it."""

    def __init__(self, answering: Answering, limits: Limits, counters: Counters) -> None:
        self._answering, self._limits, self._counters = answering, limits, counters
        self._open = 0
        self._closing = asyncio.Event()

    def add_to(self, router: web.UrlDispatcher) -> None:
        router.add_get("/v1/answers/stream", self._stream)

    async def close(self, _: web.Application) -> None:
        """End every stream, so that the server need not wait for its readers."""
        self._closing.set()

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        if self._open >= self._limits.streams_max:
            raise Overloaded(f"{self._open} streams are open, which is the limit; close one")
        self._open += 1
        corrections = self._answering.corrections()
        try:
            response = web.StreamResponse(
                headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
            )
            await response.prepare(request)
            await self._pump(corrections, response)
        except (TimeoutError, Overloaded) as error:
            self._counters.add("stream_slow")
            log.warning("stream_closed", extra={"why": str(error) or "its reader takes nothing"})
            if request.transport is not None:
                request.transport.abort()  # its buffer is full: a clean end would wait for it
        except ConnectionError:
            self._counters.add("stream_left")  # the reader simply went away
        finally:
            corrections.close()
            self._open -= 1
        return response

    async def _pump(self, corrections: Corrections, response: web.StreamResponse) -> None:
        """Until the agent ends the stream, or the server stops and what was ready is written."""
        await self._write(response, ": hello\n\n")
        closing = asyncio.create_task(self._closing.wait())
        following = asyncio.create_task(corrections.next())
        try:
            while True:
                stopping = closing.done()
                done, _ = await asyncio.wait(
                    {following} if stopping else {following, closing},
                    timeout=0 if stopping else self._limits.heartbeat_s,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if following in done:
                    await self._write(response, self._event(following.result()))
                    following = asyncio.create_task(corrections.next())
                elif stopping:
                    return
                elif not done:
                    await self._write(response, ": still here\n\n")
        except Unavailable as end:
            if isinstance(end, Overloaded):
                raise
        finally:
            closing.cancel()
            following.cancel()

    async def _write(self, response: web.StreamResponse, text: str) -> None:
        async with asyncio.timeout(self._limits.stream_stall_s_max):
            await response.write(text.encode())

    def _event(self, answer: Answer) -> str:
        data = json.dumps(document(self._answering.manifest, answer))
        return f"event: answer\nid: {answer.id}\ndata: {data}\n\n"
