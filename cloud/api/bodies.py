"""Read a request's body within its bounds of size and time, and unpack it."""

import asyncio

from aiohttp import web

from cloud.api.encodings import accepted, compress, decompress, encoding_of
from cloud.api.problems import SlowBody
from cloud.api.settings import Api
from shared.errors import Malformed, TooLarge

_INLINE_BYTES_MAX = 16 * 1024  # packing more takes over 100 us, and leaves the event loop


def refuse_declared(request: web.Request, limits: Api) -> None:
    """A body that says it is too big is refused before any of it is read."""
    encoding_of(request.headers.get("Content-Encoding"))
    declared = request.content_length
    if declared is not None and declared > limits.body_bytes_max:
        raise _too_large(f"{declared} bytes", limits)


async def read(request: web.Request, limits: Api) -> bytes:
    """The whole body, unpacked.

    Raises `TooLarge`, `SlowBody`, `UnknownEncoding`, or `Malformed` when it is cut short. Never
    holds more than the bound and one of aiohttp's chunks (256 KiB), twice while it unpacks.
    """
    refuse_declared(request, limits)
    if "Expect" in request.headers:  # nothing speaks against this request so far: let it send
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0
    content = await _arrived(request, limits)
    encoding = encoding_of(request.headers.get("Content-Encoding"))
    if encoding is None:
        return content
    return await asyncio.to_thread(decompress, content, encoding, limits.body_bytes_max)


async def pack(response: web.Response, request: web.Request, limits: Api) -> web.Response:
    """Compress the answer where the client takes that and it pays."""
    content = response.body
    if not isinstance(content, bytes) or len(content) < limits.compress_bytes_min:
        return response
    response.headers["Vary"] = "Accept-Encoding"
    encoding = accepted(request.headers.get("Accept-Encoding"))
    if encoding is None:
        return response
    packed = (
        compress(content, encoding)
        if len(content) <= _INLINE_BYTES_MAX
        else await asyncio.to_thread(compress, content, encoding)
    )
    if packed is not None:
        response.body = packed
        response.headers["Content-Encoding"] = encoding
    return response


async def _arrived(request: web.Request, limits: Api) -> bytes:
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


def _too_large(size: str, limits: Api) -> TooLarge:
    return TooLarge(
        f"the body is {size}; at most {limits.body_bytes_max} bytes are read: send fewer rows"
    )
