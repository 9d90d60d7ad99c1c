"""One request for a certificate. The answer is bounded and checked before anything is kept."""

import json
import ssl
from typing import Final

import aiohttp
from pydantic import BaseModel, ConfigDict, ValidationError

from shared.errors import Forbidden, HybridgeError, Malformed
from shared.fetching.answer import refusal
from shared.fetching.session import reaching
from shared.fleet.enrolling import BYTES_MAX, Enrolled

_HEADER_BYTES_MAX: Final = 16 * 1024


class _Problem(BaseModel):
    """RFC 9457."""

    model_config = ConfigDict(extra="ignore")

    detail: str = ""


async def post(
    url: str, body: dict[str, str], tls: ssl.SSLContext, *, timeout_s: float
) -> Enrolled:
    """Ask the region's fleet, and read its answer.

    Raises:
        Forbidden: the region refuses, in its words.
        NotTrusted: the server's certificate.
        Unavailable: it cannot be reached, or is busy.
        Malformed: what it answers is no answer.

    """
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=tls), timeout=aiohttp.ClientTimeout(total=timeout_s),
        headers={"Accept-Encoding": "identity"}, auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(), max_line_size=_HEADER_BYTES_MAX,
        max_field_size=_HEADER_BYTES_MAX,
    ) as session:  # fmt: skip
        with reaching(url):
            async with session.post(
                url, data=json.dumps(body), allow_redirects=False,
                headers={"Content-Type": "application/json"},
            ) as response:  # fmt: skip
                content = await _bounded(response, url)
    if response.status != 200:
        raise _refused(response, content, url)
    return Enrolled.from_bytes(content, BYTES_MAX)


async def _bounded(response: aiohttp.ClientResponse, url: str) -> bytes:
    content = bytearray()
    async for piece in response.content.iter_chunked(8192):
        content += piece
        if len(content) > BYTES_MAX:
            raise Malformed(f"{url}: answers with over {BYTES_MAX} bytes; is it the fleet's API?")
    return bytes(content)


def _refused(response: aiohttp.ClientResponse, content: bytes, url: str) -> HybridgeError:
    error = refusal(response.status, response.headers, url)
    try:
        said = _Problem.model_validate_json(content).detail[:500]
    except ValidationError:
        return error
    if said and 400 <= response.status < 500 and response.status != 429:
        return Forbidden(f"{url}: {said}")
    return error
