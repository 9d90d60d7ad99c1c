"""Read a request's body within its bounds of size and time, and unpack it."""

import asyncio

from aiohttp import web

from cloud.api.connections import Connections
from cloud.api.encodings import accepted, compress, decompress, encoding_of
from cloud.api.problems import SlowBody
from cloud.api.room import Share
from cloud.api.settings import Listening
from shared.errors import Malformed, TooLarge

CONNECTIONS = web.RequestKey("connections", Connections)

_INLINE_BYTES_MAX = 16 * 1024  # packing more takes over 100 us, and leaves the event loop


def refuse_declared(request: web.Request, bytes_max: int) -> None:
    """A body that says it is too big, or packed in no way that is known, is not read at all."""
    encoding_of(request.headers.get("Content-Encoding"))
    declared = request.content_length
    if declared is not None and declared > bytes_max:
        raise _too_large(f"{declared} bytes", bytes_max)


async def read(request: web.Request, bytes_max: int, within_s: float, share: Share) -> bytes:
    """The whole body, unpacked; both it and what comes are at most `bytes_max`.

    Raises `TooLarge`, `SlowBody`, `UnknownEncoding`, `Malformed` when it is cut short, `Overloaded`
    where `share` may not grow so far. Holds one of aiohttp's chunks (256 KiB) more than that.
    """
    refuse_declared(request, bytes_max)
    if "Expect" in request.headers:  # nothing speaks against this request so far: let it send
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0
    content = await _arrived(request, bytes_max, within_s, share)
    encoding = encoding_of(request.headers.get("Content-Encoding"))
    if encoding is None:
        return content
    unpacked = await asyncio.to_thread(decompress, content, encoding, bytes_max)
    share.take(len(unpacked))
    return unpacked


async def pack(response: web.Response, request: web.Request, limits: Listening) -> web.Response:
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


async def _arrived(request: web.Request, bytes_max: int, within_s: float, share: Share) -> bytes:
    content = bytearray()
    arriving = request[CONNECTIONS].awaiting_body(request.transport)
    try:
        async with asyncio.timeout(within_s):
            with arriving:
                async for chunk in request.content.iter_any():
                    share.take(len(chunk))
                    content += chunk
                    if len(content) > bytes_max:
                        raise _too_large("longer", bytes_max)
    except TimeoutError as error:
        raise SlowBody(
            f"{len(content)} bytes of the body came within {within_s:g} s; send it faster"
        ) from error
    except web.RequestPayloadError as error:
        raise Malformed(f"the body is broken after {len(content)} bytes: {error}") from error
    return bytes(content)


def _too_large(size: str, bytes_max: int) -> TooLarge:
    return TooLarge(f"the body is {size}; at most {bytes_max} bytes are read: send fewer rows")
