"""A file out of the learning process: streamed, bounded, there as a whole or not at all."""

import asyncio
import hashlib
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path

import aiohttp
from yarl import URL

from cloud.registry.client.answers import Answer, error_of
from cloud.registry.client.connection import Connection
from cloud.registry.client.uploads import Moved
from shared.disk import writing
from shared.errors import Disconnected, HybridgeError, NotTrusted, TooLarge

_ERROR_BYTES_MAX = 64 * 1024


async def fetch(
    connection: Connection,
    path: str,
    target: Path,
    moved: Moved,
    *,
    bytes_max: int,
    sha256: str | None = None,
) -> int:
    """Replace `target` by what `path` gives; returns its bytes. The first URL that answers counts.

    Raises `NotTrusted` where it has another hash than `sha256`, `TooLarge` over `bytes_max`.
    """
    beside = target.with_name(f".{target.name}.partial")
    found: HybridgeError = Disconnected("")
    try:
        for url in connection.urls:
            try:
                return await _once(connection, url + path, beside, target, moved, bytes_max, sha256)
            except (aiohttp.ClientError, TimeoutError) as error:
                found = Disconnected(f"{url}: lost while it gave {target.name}: {error}")
                found.__cause__ = error
        raise found
    finally:
        with suppress(OSError):
            await asyncio.to_thread(beside.unlink, missing_ok=True)


async def _once(
    connection: Connection,
    url: str,
    beside: Path,
    target: Path,
    moved: Moved,
    bytes_max: int,
    sha256: str | None,
) -> int:
    digest, count = hashlib.sha256(), 0
    async with connection.session.get(URL(url, encoded=True), allow_redirects=False) as response:
        if response.status >= HTTPStatus.MULTIPLE_CHOICES:
            body = await response.content.read(_ERROR_BYTES_MAX)
            headers = {name.lower(): value for name, value in response.headers.items()}
            raise error_of(Answer(response.status, headers, body), url)
        with writing(beside):
            file = await asyncio.to_thread(beside.open, "wb")
        try:
            async for chunk in response.content.iter_any():
                count += len(chunk)
                if count > bytes_max:
                    raise TooLarge(f"{url}: over {bytes_max} bytes")
                digest.update(chunk)
                with writing(beside):
                    await asyncio.to_thread(file.write, chunk)
                moved(len(chunk))
        finally:
            await asyncio.to_thread(file.close)
    if sha256 is not None and digest.hexdigest() != sha256:
        raise NotTrusted(
            f"{target.name}: came with another hash than {sha256[:16]}...; fetch it again, and look "
            "at what is between here and the learning process"
        )
    with writing(target):
        await asyncio.to_thread(beside.replace, target)
    return count
