"""One file over HTTP into a folder: resumed where it stopped, paced, and believed by its hash alone.

Everything about the server is doubted: a body that is too long, too short, compressed, of another
range, or that only drips is refused or given up; the bytes that have come stay for the next try.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from shared.errors import Disconnected, NotTrusted, TooLarge, Unknown
from shared.fetching.answer import Body, Restart, refusal, understand
from shared.fetching.pace import Pace
from shared.fetching.partial import Partial
from shared.fetching.session import reaching, said

Progress = Callable[[int, int], None]
"""Called on the event loop with the bytes that are here, and those of the whole."""

_PIECE = 1024 * 1024  # what is hashed and written at once, in a thread
_PACED_PIECE = 64 * 1024  # smaller where the rate is limited: no bursts of seconds
_DRIP_BYTES = 1024
_DOCUMENT_STALLS = 10  # times the bound of a stall that a small document may take as a whole
_STALL_S = 30.0


async def fetch_file(
    session: aiohttp.ClientSession,
    url: str,
    target: Path,
    *,
    sha256: str,
    bytes: int,  # noqa: A002  as manifests call it
    headers: Mapping[str, str] | None = None,
    pace: Pace | None = None,
    on_progress: Progress | None = None,
    stall_s: float = _STALL_S,
) -> None:
    """Make `target` the file of `bytes` bytes and `sha256`; one that is there already is checked.

    One try at one URL: what came before a cut stays beside `target` and the next call goes on
    there (`attempts.py` tries again). Raises `Unknown` (404), `Forbidden` (401, 403), `NotTrusted`
    (other bytes than asked for), `Overloaded` (the server is busy, or the disk is full),
    `Disconnected` (cut off, stalled, dripping) or another `Unavailable`.
    """
    if await asyncio.to_thread(is_file, target, sha256, bytes):
        return
    partial = await _opened(target, bytes)
    try:
        resumed = partial.offset > 0
        try:
            await _fill(session, url, partial, dict(headers or {}), pace, on_progress, stall_s)
            await asyncio.to_thread(partial.finish, sha256)
        except NotTrusted:
            if not resumed:
                raise
            # What lay here may be what is wrong, not what the server sends: once more from 0.
            await asyncio.to_thread(partial.restart)
            await _fill(session, url, partial, dict(headers or {}), pace, on_progress, stall_s)
            await asyncio.to_thread(partial.finish, sha256)
    finally:
        partial.close()


async def fetch_bytes(
    session: aiohttp.ClientSession,
    url: str,
    *,
    bytes_max: int,
    headers: Mapping[str, str] | None = None,
    stall_s: float = _STALL_S,
) -> bytes | None:
    """A small document in memory; None when it is not there (404). Raises as `fetch_file` does, and
    `TooLarge` beyond `bytes_max`.
    """
    async with _asked(session, url, dict(headers or {}), stall_s) as response:
        if response.status != 200:
            error = refusal(response.status, response.headers, url)
            if isinstance(error, Unknown):
                return None
            raise error
        body = b""
        try:
            async with asyncio.timeout(_DOCUMENT_STALLS * stall_s):
                async for piece in _pieces(response, bytes_max + 1, stall_s, url):
                    body += b"".join(piece)
                    if len(body) > bytes_max:
                        raise TooLarge(f"{url}: is over the {bytes_max} bytes that it may have")
        except TimeoutError as error:
            s_max = _DOCUMENT_STALLS * stall_s
            raise Disconnected(f"{url}: did not come within {s_max:g} s") from error
        return body


def is_file(path: Path, sha256: str, size: int) -> bool:
    """Whether `path` holds exactly that. Blocking: reads it all."""
    try:
        with path.open("rb") as file:
            if path.lstat().st_size != size:
                return False
            return hashlib.file_digest(file, "sha256").hexdigest() == sha256
    except OSError:
        return False


async def _fill(
    session: aiohttp.ClientSession,
    url: str,
    partial: Partial,
    headers: dict[str, str],
    pace: Pace | None,
    on_progress: Progress | None,
    stall_s: float,
) -> None:
    """Until `partial` has all its bytes."""
    if partial.offset == partial.size:
        return
    asked = dict(headers)
    if partial.offset:
        asked["Range"] = f"bytes={partial.offset}-"
        if etag := partial.etag:
            asked["If-Range"] = etag
    async with _asked(session, url, asked, stall_s) as response:
        decided = understand(
            response.status, response.headers,
            offset=partial.offset, size=partial.size, where=url,
        )  # fmt: skip
        if isinstance(decided, Body):
            await _take(response, url, partial, decided, pace, on_progress, stall_s)
            return
    assert isinstance(decided, Restart)
    await asyncio.to_thread(partial.restart)
    await _fill(session, url, partial, headers, pace, on_progress, stall_s)  # offset 0: once


async def _take(
    response: aiohttp.ClientResponse,
    url: str,
    partial: Partial,
    body: Body,
    pace: Pace | None,
    on_progress: Progress | None,
    stall_s: float,
) -> None:
    if body.offset != partial.offset:
        await asyncio.to_thread(partial.restart)
    await asyncio.to_thread(partial.remember, body.etag)
    loop = asyncio.get_running_loop()
    size = _PIECE if pace is None else _PACED_PIECE
    came = partial.offset
    writing: asyncio.Task[None] | None = None  # of one piece, while the next one comes
    try:
        async for piece in _pieces(response, size, stall_s, url):
            count = sum(map(len, piece))
            came += count
            if writing is not None:
                await asyncio.shield(writing)
            if came > partial.size:
                await asyncio.to_thread(partial.restart)
                raise NotTrusted(
                    f"{url}: sends more than the {partial.size} bytes that were expected; it is "
                    "not the file that was asked for"
                )
            writing = asyncio.create_task(asyncio.to_thread(partial.write, piece))
            if on_progress is not None:
                on_progress(partial.offset, partial.size)
            if pace is not None:
                await asyncio.sleep(pace.spend(count, loop.time()))
    finally:  # a thread cannot be cancelled: nobody closes the file under it
        if writing is not None:
            await asyncio.wait([writing])
            writing.exception()  # looked at, though another error may be on its way out
    if writing is not None:
        writing.result()
    if partial.offset < partial.size:
        raise Disconnected(f"{url}: ended after {partial.offset} of {partial.size} bytes")
    if on_progress is not None:
        on_progress(partial.offset, partial.size)


async def _opened(target: Path, size: int) -> Partial:
    """A thread cannot be cancelled: what it opened meanwhile is closed."""
    opening = asyncio.ensure_future(asyncio.to_thread(Partial, target, size))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        await asyncio.wait({opening})
        if opening.exception() is None:
            opening.result().close()
        raise


@asynccontextmanager
async def _asked(
    session: aiohttp.ClientSession, url: str, headers: dict[str, str], stall_s: float
) -> AsyncIterator[aiohttp.ClientResponse]:
    """GET; a redirect is not followed: it could lead anywhere."""
    with reaching(url):
        async with asyncio.timeout(2 * stall_s):
            response = await session.get(url, headers=headers, allow_redirects=False)
        try:
            yield response
        finally:
            response.close()  # not released: what is left of a body is not read


async def _pieces(
    response: aiohttp.ClientResponse, size: int, stall_s: float, url: str
) -> AsyncIterator[list[bytes]]:
    """The body in pieces of about `size` bytes, each as it came; what has come is given before an
    error is raised.

    Raises `Disconnected` when less than a KiB comes within `stall_s`.
    """
    loop = asyncio.get_running_loop()
    gathered: list[bytes] = []
    held = 0
    since, counted = loop.time(), 0
    failed: Exception | None = None
    while failed is None:
        try:
            async with asyncio.timeout(stall_s):
                chunk = await response.content.readany()
        except (aiohttp.ClientError, ConnectionError, TimeoutError) as error:
            failed = Disconnected(f"{url}: {said(error)}")
            failed.__cause__ = error
            break
        if not chunk:
            break
        gathered.append(chunk)
        held += len(chunk)
        counted += len(chunk)
        now = loop.time()
        if now - since > stall_s:
            if counted < _DRIP_BYTES:
                failed = Disconnected(f"{url}: {counted} bytes in {now - since:.0f} s; given up")
                break
            since, counted = now, 0
        if held >= size:
            yield gathered
            gathered, held = [], 0
            since, counted = loop.time(), _DRIP_BYTES  # our own writing and pacing is not theirs
    if gathered:
        yield gathered
    if failed is not None:
        raise failed
