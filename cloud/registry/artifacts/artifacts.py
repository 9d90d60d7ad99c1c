"""The artifact store: whole, verified files by their SHA-256, each once."""

import asyncio
import hashlib
import shutil
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from cloud.registry.artifacts.blobs import Blobs, Stored, checked_sha256
from cloud.registry.artifacts.collection import Collected, collect
from cloud.registry.artifacts.folder_blobs import FolderBlobs, in_words
from cloud.registry.artifacts.hash_locks import HashLocks
from cloud.registry.artifacts.object_blobs import object_blobs
from cloud.registry.artifacts.reader import Reader
from cloud.registry.artifacts.settings import ArtifactSettings
from cloud.registry.artifacts.uploads import Uploads
from shared.errors import NotTrusted, TooLarge, Unavailable, Unknown

_AT_ONCE = 8  # questions to the store


@dataclass(frozen=True, slots=True)
class Scrubbed:
    checked: int
    bytes: int
    corrupt: tuple[str, ...]  # set aside: no longer here


class Artifacts:
    """Raises `Unavailable` from anywhere while the place is away or full."""

    def __init__(self, settings: ArtifactSettings, state_dir: Path) -> None:
        """Raises `Malformed` for a URL that names no store."""
        self._settings = settings
        self._blobs, staging = _open(settings.url, state_dir)
        self._locks = HashLocks(state_dir / "artifact_locks")
        self.uploads = Uploads(settings, self._blobs, self._locks, staging)

    @property
    def where(self) -> str:
        return self._blobs.where

    async def check(self) -> None:
        """Raises what the first call would, so that a service says it when it starts."""
        await asyncio.to_thread(self._blobs.check)

    async def has(self, sha256s: Iterable[str]) -> set[str]:
        """Those that are here, each safe from garbage collection for the grace period from now."""
        wanted = [checked_sha256(sha256) for sha256 in sha256s]
        slices = [wanted[first::_AT_ONCE] for first in range(min(len(wanted), _AT_ONCE))]
        found = await asyncio.gather(*(asyncio.to_thread(self._here, part) for part in slices))
        return set().union(*found)

    async def stored(self) -> set[str]:
        """All that are here, by one listing; none becomes safer by it. For who asks about many."""
        return await asyncio.to_thread(lambda: {one.sha256 for one in self._blobs.walk()})

    async def size(self, sha256: str) -> int:
        """In bytes. Raises `Unknown`."""
        return (await self._stat(sha256)).bytes

    async def put_bytes(self, content: bytes) -> str:
        """Store; durable when this returns. Returns its SHA-256. Raises `TooLarge`."""
        if len(content) > self._settings.bytes_max:
            raise TooLarge(
                f"{len(content)} bytes; an artifact has {self._settings.bytes_max} at most"
            )
        return await asyncio.to_thread(self._put, content)

    async def open(self, sha256: str, size: int | None = None) -> Reader:
        """Raises `Unknown`; `NotTrusted` when it has not `size` bytes, where that is known: it is
        then set aside.
        """
        stored = await self._stat(sha256)
        if size is not None and size != stored.bytes and not await self.verify(sha256):
            raise _corrupt(sha256)
        return Reader(sha256, stored.bytes, self._blobs.path(sha256), self._blobs)

    async def read(self, sha256: str, bytes_max: int) -> bytes:
        """All of it, verified. Raises `Unknown`, `TooLarge`, `NotTrusted` (flipped bits; it is then
        set aside, so that it can be stored anew).
        """
        if (size := await self.size(sha256)) > bytes_max:
            raise TooLarge(f"artifact {sha256[:16]}... has {size} bytes; at most {bytes_max} here")
        content = await asyncio.to_thread(self._read, sha256)
        if content is None:
            await self.verify(sha256)
            raise _corrupt(sha256)
        return content

    async def verify(self, sha256: str) -> bool:
        """Whether it still has the hash that is its name; if not, it is set aside. Raises `Unknown`."""
        checked_sha256(sha256)
        return await asyncio.to_thread(self._verify, sha256)

    async def scrub(self) -> Scrubbed:
        """Verify everything: once through the whole store, a file at a time."""
        checked = total = 0
        corrupt = []
        for stored in await asyncio.to_thread(lambda: list(self._blobs.walk())):
            try:
                if not await self.verify(stored.sha256):
                    corrupt.append(stored.sha256)
            except Unknown:  # collected meanwhile
                continue
            checked, total = checked + 1, total + stored.bytes
        return Scrubbed(checked, total, tuple(corrupt))

    async def collect(self, needed: Collection[str], *, dry_run: bool, now: float) -> Collected:
        """Remove what is not in `needed` and older than the grace period. `now`: Unix seconds."""
        return await asyncio.to_thread(
            collect, self._blobs, self._locks, self.uploads, self._settings, frozenset(needed),
            dry_run=dry_run, now=now,
        )  # fmt: skip

    async def _stat(self, sha256: str) -> Stored:
        checked_sha256(sha256)
        if (stored := await asyncio.to_thread(self._blobs.stat, sha256)) is None:
            raise Unknown(f"there is no artifact {sha256}")
        return stored

    def _here(self, sha256s: list[str]) -> set[str]:
        found = set()
        for sha256 in sha256s:
            with self._locks.keep(sha256):
                if self._blobs.renew(sha256) is not None:
                    found.add(sha256)
        return found

    def _put(self, content: bytes) -> str:
        sha256 = hashlib.sha256(content).hexdigest()
        with self._locks.keep(sha256):
            if self._blobs.renew(sha256) is None:
                self._has_room(len(content))
                self._blobs.put(sha256, content)
        return sha256

    def _has_room(self, size: int) -> None:
        if isinstance(self._blobs, FolderBlobs):
            self._blobs.check()
            with in_words(self.where):
                free = shutil.disk_usage(self.where).free
            if free - size < self._settings.free_bytes_min:
                raise Unavailable(f"{self.where}: {free} bytes are free; make room, or run gc")

    def _read(self, sha256: str) -> bytes | None:
        content = b"".join(self._blobs.parts(sha256))
        return content if hashlib.sha256(content).hexdigest() == sha256 else None

    def _verify(self, sha256: str) -> bool:
        if self._is_whole(sha256):
            return True
        with self._locks.remove(sha256, wait=True):
            if self._is_whole(sha256):  # stored anew meanwhile
                return True
            self._blobs.set_aside(sha256, self._settings.corrupt_max)
        return False

    def _is_whole(self, sha256: str) -> bool:
        found = hashlib.sha256()
        for part in self._blobs.parts(sha256):
            found.update(part)
        return found.hexdigest() == sha256


def _corrupt(sha256: str) -> NotTrusted:
    return NotTrusted(f"artifact {sha256[:16]}... is corrupt, and was set aside; push it again")


def _open(url: str | None, state_dir: Path) -> tuple[Blobs, Path]:
    """The store, and the folder of its staged files."""
    if url is None or url.startswith("file:"):
        root = state_dir / "artifacts" if url is None else Path(unquote(urlsplit(url).path))
        folder = FolderBlobs(root)
        return folder, folder.uploads
    return object_blobs(url), state_dir / "uploads"
