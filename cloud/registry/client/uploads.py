"""One file into the artifact store, from where the last try stopped."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final, Protocol

from cloud.api.problems import SlowBody
from cloud.registry.client.connection import Body, Connection
from cloud.registry.client.retrying import Tries, after_failure
from shared.errors import Conflict, HybridgeError, Malformed, Refused, Unavailable, Unknown

_READ_BYTES: Final = 1 << 20
Moved = Callable[[int], None]
"""Told how many bytes came over; a negative count: the registry lost some."""


class Source(Protocol):
    """The bytes of one file."""

    def read(self, offset: int, size: int) -> bytes:
        """May block; runs in a thread."""
        ...


class FileSource:
    """A file on disk."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, offset: int, size: int) -> bytes:
        with self._path.open("rb") as file:
            file.seek(offset)
            return file.read(size)


class BytesSource:
    """Bytes in memory."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def read(self, offset: int, size: int) -> bytes:
        return self._content[offset : offset + size]


async def upload(
    connection: Connection, sha256: str, total: int, source: Source, moved: Moved
) -> None:
    """Send what the registry has not got of a file; it checks the hash at the end.

    Goes on from the registry's own offset after whatever cut, for as long as something moves
    within `upload_patience_s`. Raises what the registry refuses with, and `Unavailable`.
    """
    settings = connection.settings
    loop = asyncio.get_running_loop()
    tries = Tries(loop.time() + settings.upload_patience_s)
    offset, is_whole = await _stands(connection, sha256, total)
    moved(offset)
    while not is_whole:
        size = min(settings.part_bytes, total - offset)
        failure: HybridgeError | None = None
        try:
            after = await _append(connection, sha256, total, offset, size, source)
            is_whole = after == total
        except (Unavailable, Conflict, SlowBody) as error:
            # Conflict: another one sends the same file, or the registry still waits for what a cut
            # connection was to bring
            failure = error
            after, is_whole = await _stands(connection, sha256, total)
        moved(after - offset)
        if after > offset:
            tries = Tries(loop.time() + settings.upload_patience_s)
        if not is_whole and (failure is not None or after <= offset):
            following = after_failure(
                tries, failure if isinstance(failure, Unavailable) else Unavailable(),
                may_have_been_done=True, is_repeatable=True, now=loop.time(), settings=settings,
                rng=connection.rng,
            )  # fmt: skip
            if following is None:
                raise failure or Unavailable(
                    f"artifact {sha256[:16]}...: the registry takes none of it beyond {offset} bytes"
                )
            tries, pause = following
            await asyncio.sleep(pause)
        offset = after


async def _stands(connection: Connection, sha256: str, total: int) -> tuple[int, bool]:
    """Bytes that are there, and whether the file is: all of its bytes are there a little before, until
    they are checked and on the disk, and only a whole file has an Upload-Length.
    """
    try:
        answer = await connection.call("HEAD", f"/v1/uploads/{sha256}")
    except Unknown:
        return 0, False
    return _stated(answer.headers.get("upload-offset"), total), "upload-length" in answer.headers


async def _append(
    connection: Connection, sha256: str, total: int, offset: int, size: int, source: Source
) -> int:
    """The new offset; `total` when the file is in."""
    headers = {
        "Upload-Offset": str(offset), "Upload-Length": str(total),
        "Content-Type": "application/offset+octet-stream",
    }  # fmt: skip
    answer = await connection.call(
        "PATCH", f"/v1/uploads/{sha256}", headers=headers, body=_slice(source, offset, size),
        length=size, is_repeatable=False,
    )  # fmt: skip
    return _stated(answer.headers.get("upload-offset"), total)


def _slice(source: Source, start: int, size: int) -> Body:
    end = start + size

    def read(at: int) -> "asyncio.Task[bytes]":
        return asyncio.create_task(asyncio.to_thread(source.read, at, min(_READ_BYTES, end - at)))

    async def chunks() -> AsyncIterator[bytes]:
        coming = read(start) if size else None
        try:
            for at in range(start, end, _READ_BYTES):
                assert coming is not None
                chunk, following = await coming, at + _READ_BYTES
                if len(chunk) != min(_READ_BYTES, end - at):
                    raise Refused("a file became shorter while it was sent; push again")
                coming = read(following) if following < end else None  # while this one is sent
                yield chunk
        finally:
            if coming is not None:
                await asyncio.wait([coming])

    return chunks


def _stated(offset: str | None, total: int) -> int:
    if offset is None or not offset.isdecimal() or int(offset) > total:
        raise Malformed(f"the registry says no Upload-Offset up to {total}: {str(offset)[:40]!r}")
    return int(offset)
