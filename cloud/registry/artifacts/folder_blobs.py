"""Artifacts in a directory: synced, then renamed in, then the directory synced.

Not through obstore's `LocalStore`, which syncs nothing and cannot renew a file's time.
"""

import asyncio
import errno
import os
import secrets
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from pathlib import Path

from cloud.registry.artifacts.blobs import Stored, is_sha256, key
from shared.disk import sync_folder
from shared.errors import Unavailable, Unknown

_PART = 1 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class FolderBlobs:
    """Below `root`: `sha256/ab/...`, `corrupt/`, and `uploads/`, from where files are renamed in."""

    def __init__(self, root: Path) -> None:
        self.where = str(root)
        self.uploads = root / "uploads"
        self._root = root
        self._corrupt = root / "corrupt"

    def check(self) -> None:
        with in_words(self.where):
            make_folder(self._root / "sha256")

    def stat(self, sha256: str) -> Stored | None:
        with in_words(self.where):
            try:
                found = self._at(sha256).stat()
            except FileNotFoundError:
                return None
        return Stored(sha256, found.st_size, found.st_mtime)

    def renew(self, sha256: str) -> int | None:
        with in_words(self.where):
            try:
                os.utime(self._at(sha256))
                return self._at(sha256).stat().st_size
            except FileNotFoundError:
                return None

    def put(self, sha256: str, content: bytes) -> None:
        with in_words(self.where):
            make_folder(self.uploads)
            staged = self.uploads / f"{sha256}.{secrets.token_hex(4)}.put"
            try:
                with staged.open("xb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                self.place(sha256, staged)
            except BaseException:
                staged.unlink(missing_ok=True)
                raise

    def place(self, sha256: str, staged: Path) -> None:
        with in_words(self.where):
            target = self._at(sha256)
            make_folder(target.parent)
            os.utime(staged)  # its grace begins now, not with the upload's first byte
            staged.replace(target)
            sync_folder(target.parent)

    def path(self, sha256: str) -> Path | None:
        return self._at(sha256)

    def parts(self, sha256: str) -> Iterator[bytes]:
        with in_words(self.where), self._opened(sha256) as handle:
            while part := os.read(handle, _PART):
                yield part

    async def ranges(self, sha256: str, start: int, end: int) -> AsyncGenerator[bytes, None]:
        with in_words(self.where), self._opened(sha256) as handle:
            while start < end:
                part = await asyncio.to_thread(os.pread, handle, min(_PART, end - start), start)
                if not part:
                    return
                start += len(part)
                yield part

    def walk(self) -> Iterator[Stored]:
        with in_words(self.where):
            for folder in _sorted(self._root / "sha256"):
                for file in _sorted(folder):
                    if not is_sha256(file.name) or file != self._at(file.name):
                        continue  # not its own
                    if (found := self.stat(file.name)) is not None:
                        yield found

    def remove(self, sha256: str) -> None:
        with in_words(self.where):
            self._at(sha256).unlink(missing_ok=True)

    def set_aside(self, sha256: str, kept_max: int) -> None:
        with in_words(self.where):
            make_folder(self._corrupt)
            target = self._corrupt / sha256
            try:
                self._at(sha256).replace(target)
            except FileNotFoundError:
                return
            os.utime(target)
            sync_folder(self._at(sha256).parent)
            for old in sorted(self._corrupt.iterdir(), key=lambda p: -p.stat().st_mtime)[kept_max:]:
                old.unlink()

    def _at(self, sha256: str) -> Path:
        return self._root / key(sha256)

    @contextmanager
    def _opened(self, sha256: str) -> Iterator[int]:
        try:
            handle = os.open(self._at(sha256), os.O_RDONLY | os.O_NOFOLLOW)
        except FileNotFoundError as error:
            raise Unknown(f"{self.where}: there is no artifact {sha256}") from error
        try:
            yield handle
        finally:
            os.close(handle)


def make_folder(folder: Path) -> None:
    """With its parents, each durable in the one above. Raises `OSError`."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


@contextmanager
def in_words(where: str) -> Iterator[None]:
    """`OSError` as `Unavailable`."""
    try:
        yield
    except OSError as error:
        what = error.strerror or str(error)
        if error.errno in _FULL:
            raise Unavailable(f"{where}: {what}; make room, then send it again") from error
        raise Unavailable(f"{where}: {what}") from error


def _sorted(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []
