"""Uploads that can be resumed: written to a staged file, hashed on the way, moved in when whole.

Nothing of an upload can be seen before all of it is there and has the hash that it was sent under.
"""

import asyncio
import shutil
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

from cloud.registry.artifacts.blobs import Blobs, checked_sha256
from cloud.registry.artifacts.folder_blobs import in_words, make_folder
from cloud.registry.artifacts.hash_locks import HashLocks
from cloud.registry.artifacts.settings import ArtifactSettings
from cloud.registry.artifacts.staged_file import Staged, StagedFile, drop_idle, staged_files
from shared.errors import Conflict, Malformed, NotTrusted, Overloaded, TooLarge, Unavailable

if TYPE_CHECKING:
    from hashlib import _Hash

_IDLE_S = 900.0
"""Where there is no room for another, one that nobody has continued for so long gives way: else
a few bytes each, begun and left, would keep every push out for a day."""
_WRITE = 1 << 20  # bytes gathered before a thread writes and hashes them


class Uploads:
    def __init__(
        self, settings: ArtifactSettings, blobs: Blobs, locks: HashLocks, folder: Path
    ) -> None:
        """`folder`: of the staged files; with a directory of artifacts, on its file system."""
        self._settings, self._blobs, self._locks, self._folder = settings, blobs, locks, folder
        self._known: OrderedDict[str, tuple[int, _Hash]] = OrderedDict()  # size and hash so far
        self._entering = threading.Lock()

    async def offset(self, sha256: str) -> int | None:
        """From where to go on: bytes that are staged. None when there are none."""
        checked_sha256(sha256)
        found = await asyncio.to_thread(staged_files, self._folder)
        return next((one.bytes for one in found if one.sha256 == sha256), None)

    async def append(
        self, sha256: str, total_bytes: int, offset: int, chunks: AsyncIterator[bytes]
    ) -> int:
        """Take `chunks` on from `offset`; returns the new offset, `total_bytes` when it is in.

        What came stays for the next call when `chunks` ends early or raises. When the artifact is
        here already, none of `chunks` is taken. Raises `Conflict`
        (another `offset` is due; somebody else is sending it), `Malformed`, `TooLarge`,
        `NotTrusted` (another hash than it was sent under; all of it is dropped), `Overloaded`
        (too many unfinished uploads), `Unavailable` (the disk is full; all of it is dropped).
        """
        checked_sha256(sha256)
        if not 0 <= offset <= total_bytes:
            raise Malformed(f"upload at {offset} of {total_bytes} bytes: no such offset")
        if total_bytes > self._settings.bytes_max:
            raise TooLarge(
                f"{total_bytes} bytes; one artifact has {self._settings.bytes_max} at most"
            )
        if (stored := await asyncio.to_thread(self._renew, sha256)) is not None:
            if stored != total_bytes:
                raise Malformed(f"artifact {sha256[:16]}... has {stored} bytes, not {total_bytes}")
            return total_bytes
        staged = StagedFile(self._folder, sha256, total_bytes)
        try:
            await asyncio.to_thread(self._enter, staged, sha256, total_bytes, offset)
            await _receive(staged, chunks, total_bytes - offset)
            if staged.size == total_bytes:
                await asyncio.to_thread(self._finish, staged, sha256)
            return staged.size
        finally:
            await asyncio.shield(asyncio.to_thread(self._leave, staged, sha256))

    def drop_older(self, than: float, *, dry_run: bool) -> list[Staged]:
        """Drop what nobody has continued since `than` (Unix seconds); also what a killed process left."""
        old = [one for one in staged_files(self._folder) if one.touched_at < than]
        if dry_run:
            return old
        with in_words(str(self._folder)):
            for path in self._folder.glob("*.put"):
                if path.stat().st_mtime < than:
                    path.unlink(missing_ok=True)
        return [one for one in old if drop_idle(one)]

    def _renew(self, sha256: str) -> int | None:
        with self._locks.keep(sha256):
            return self._blobs.renew(sha256)

    def _enter(self, staged: StagedFile, sha256: str, total_bytes: int, offset: int) -> None:
        with self._entering:
            if not staged.path.exists():
                self._make_room(sha256, total_bytes)
            staged.lock()
            known = self._known.pop(sha256, None)
        staged.load(known)
        if staged.size != offset:
            raise Conflict(
                f"upload {sha256[:16]}... stands at {staged.size} bytes, not {offset}; go on there"
            )

    def _make_room(self, sha256: str, total_bytes: int) -> None:
        limits = self._settings
        with in_words(str(self._folder)):
            make_folder(self._folder)
            free = shutil.disk_usage(self._folder).free
        others = staged_files(self._folder)
        for other in [one for one in others if one.sha256 == sha256]:
            if not drop_idle(other):
                raise Conflict(f"upload {sha256[:16]}...: somebody else is sending it")
            others.remove(other)  # begun with another size: one of the two is wrong
        forgotten = time.time() - limits.upload_s
        others = [one for one in others if one.touched_at >= forgotten or not drop_idle(one)]
        reserved = sum(one.total_bytes for one in others)
        idle = time.time() - _IDLE_S
        for other in list(others):  # the longest idle first
            if self._fits(len(others), reserved + total_bytes) or other.touched_at >= idle:
                break
            if drop_idle(other):
                others.remove(other)
                reserved -= other.total_bytes
        if not self._fits(len(others), reserved + total_bytes):
            raise Overloaded(
                f"{len(others)} unfinished uploads of {reserved} bytes; finish one, or wait: each is "
                f"dropped when nobody has continued it for {limits.upload_hours:g} h, or gives way to "
                f"a new one after {_IDLE_S / 60:g} min"
            )
        coming = sum(max(one.total_bytes - one.bytes, 0) for one in others)
        if free - coming - total_bytes < limits.free_bytes_min:
            raise Unavailable(
                f"{self._folder}: {free} bytes are free, {coming} of them for other uploads: no room "
                f"for {total_bytes} with {limits.free_bytes_min} to spare; make room, or run gc"
            )

    def _fits(self, others: int, reserved: int) -> bool:
        limits = self._settings
        return others < limits.uploads_max and reserved <= limits.uploads_bytes_max

    def _finish(self, staged: StagedFile, sha256: str) -> None:
        found = staged.hash.hexdigest()
        if found != sha256:
            staged.discard()
            raise NotTrusted(
                f"upload {sha256[:16]}...: what was sent has sha256 {found[:16]}...; it is dropped, "
                "send it again from the start"
            )
        with self._locks.keep(sha256):
            staged.move(lambda path: self._blobs.place(sha256, path))

    def _leave(self, staged: StagedFile, sha256: str) -> None:
        if staged.close():
            with self._entering:
                self._known[sha256] = staged.size, staged.hash
                while len(self._known) > self._settings.uploads_max:
                    self._known.popitem(last=False)


async def _receive(staged: StagedFile, chunks: AsyncIterator[bytes], left: int) -> None:
    """A thread writes and hashes one part while the next one comes."""
    writing: asyncio.Task[None] | None = None
    parts: list[bytes] = []
    gathered = 0
    try:
        async for chunk in chunks:
            left -= len(chunk)
            if left < 0:
                break
            parts.append(chunk)
            gathered += len(chunk)
            if gathered >= _WRITE:
                if writing is not None:
                    await writing
                writing = asyncio.create_task(asyncio.to_thread(staged.write, parts))
                parts, gathered = [], 0
    finally:
        if writing is not None:
            await asyncio.wait([writing])
    if writing is not None:
        writing.result()
    if left < 0:
        await asyncio.to_thread(staged.discard)
        raise TooLarge("upload: more bytes than it said it would have; it is dropped")
    await asyncio.to_thread(staged.write, parts)
