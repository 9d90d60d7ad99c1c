"""Read a request's body within its bounds of size and time."""

import asyncio
from http import HTTPStatus

from aiohttp import web

from edge.api import problems
from edge.api.problems import SlowBody
from edge.api.settings import Limits
from shared.errors import Malformed, TooLarge


def refuse_declared(request: web.Request, limits: Limits) -> None:
    """A body that says it is too big is refused before any of it is read."""
    declared = request.content_length
    if declared is not None and declared > limits.body_bytes_max:
        raise _too_large(f"{declared} bytes", limits)


async def read(request: web.Request, limits: Limits) -> bytes:
    """The whole body, decompressed. Raises `TooLarge`, `SlowBody`, or `Malformed` when cut short.

    Never holds more than the bound and one of aiohttp's chunks (256 KiB).
    """
    refuse_declared(request, limits)
    content = bytearray()
    try:
        async with asyncio.timeout(limits.body_s_max):
            async for chunk in request.content.iter_any():
                content += chunk
                if len(content) > limits.body_bytes_max:
                    raise _too_large("longer", limits)
    except TimeoutError as error:
        raise SlowBody(
            f"{len(content)} bytes of the body came within {limits.body_s_max:g} s; send it faster"
        ) from error
    except web.RequestPayloadError as error:
        raise Malformed(f"the body is broken after {len(content)} bytes: {error}") from error
    return bytes(content)


async def expect_continue(request: web.Request, limits: Limits) -> web.Response | None:
    """`Expect: 100-continue`: say no before the body is sent, not after."""
    if request.headers.get("Expect", "").lower() != "100-continue":
        words = "only 100-continue can be expected here; leave Expect out"
        return problems.problem(HTTPStatus.EXPECTATION_FAILED, "expectation", words)
    try:
        refuse_declared(request, limits)
    except TooLarge as error:
        return problems.of_error(error)
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    request.writer.output_size = 0
    return None


def _too_large(size: str, limits: Limits) -> TooLarge:
    return TooLarge(
        f"the body is {size}; at most {limits.body_bytes_max} bytes are read: send fewer rows"
    )
