"""One unfinished upload on disk: `<sha256>.<total bytes>.part`, with the hash of what is in it.

The writer holds an exclusive `flock` on it: one at a time, across processes, and the kernel gives it
back when the process is killed. What is in the file then is a beginning to go on from.
"""

import fcntl
import hashlib
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from cloud.registry.artifacts.folder_blobs import in_words
from shared.errors import Conflict

if TYPE_CHECKING:
    from hashlib import _Hash

_PART = 1 << 20
_SUFFIX = ".part"


@dataclass(frozen=True, slots=True)
class Staged:
    """An unfinished upload as it lies there. `touched_at`: Unix seconds."""

    path: Path
    sha256: str
    total_bytes: int
    bytes: int
    touched_at: float


class StagedFile:
    """Its writer. Any thread may call, and `close` may overtake `open`: it then opens no more."""

    def __init__(self, folder: Path, sha256: str, total_bytes: int) -> None:
        self.path = folder / f"{sha256}.{total_bytes}{_SUFFIX}"
        self.size = 0
        self.hash = hashlib.sha256()
        self._where = f"upload {sha256[:16]}..."
        self._file: BinaryIO | None = None
        self._closed = False
        self._alone = threading.Lock()

    def open(self, known: "tuple[int, _Hash] | None") -> None:
        """Lock it, and hash what is there, unless `known` (a size, and the hash of so many bytes)
        says it. Raises `Conflict` while another writer has it, `Unavailable`.
        """
        with self._alone, in_words(self._where):
            if self._closed:
                raise Conflict(f"{self._where}: given up")
            self._file = file = self.path.open("a+b")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                there = self.path.stat()
            except (BlockingIOError, FileNotFoundError) as error:
                raise self._taken() from error
            found = os.fstat(file.fileno())
            if (there.st_dev, there.st_ino) != (found.st_dev, found.st_ino):
                raise self._taken()  # the writer before moved it in, or dropped it, just now
            if known is not None and known[0] == found.st_size:
                self.size, self.hash = known
                return
            file.seek(0)
            while part := file.read(_PART):
                self.hash.update(part)
                self.size += len(part)

    def write(self, parts: list[bytes]) -> None:
        """Raises `Unavailable`: what was written of it then is cut off again."""
        with self._alone, in_words(self._where):
            if (file := self._file) is None:
                raise Conflict(f"{self._where}: given up")
            content = b"".join(parts)
            try:
                file.write(content)
                file.flush()
            except OSError:
                self._drop(file)  # what fails is a disk that is full: give it back its room
                raise
            self.hash.update(content)
            self.size += len(content)

    def sync(self) -> None:
        with self._alone, in_words(self._where):
            if self._file is not None:
                os.fsync(self._file.fileno())

    def discard(self) -> None:
        """Its bytes are of no use to anyone."""
        with self._alone, in_words(self._where):
            if self._file is not None:
                self._drop(self._file)

    def close(self) -> None:
        """Give the lock back; what was written stays. May be called again."""
        with self._alone, in_words(self._where):
            self._closed = True
            if (file := self._file) is not None:
                self._file = None
                try:
                    os.fsync(file.fileno())
                finally:
                    file.close()

    def _drop(self, file: BinaryIO) -> None:
        self.path.unlink(missing_ok=True)
        self._file = None
        file.close()

    def _taken(self) -> Conflict:
        return Conflict(f"{self._where}: somebody else is sending it; ask again where it stands")


def staged_files(folder: Path) -> list[Staged]:
    """All unfinished uploads, the oldest first. Raises `Unavailable`."""
    found = []
    with in_words(str(folder)):
        for path in folder.glob(f"*{_SUFFIX}"):
            sha256, total = path.name.removesuffix(_SUFFIX).split(".")
            try:
                stat = path.stat()
            except FileNotFoundError:
                continue
            found.append(Staged(path, sha256, int(total), stat.st_size, stat.st_mtime))
    return sorted(found, key=lambda one: one.touched_at)


def drop_idle(staged: Staged) -> bool:
    """Remove an upload that nobody is writing. False when somebody is, or it is gone."""
    with in_words(staged.path.name):
        try:
            file = staged.path.open("r+b")
        except FileNotFoundError:
            return False
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            try:
                staged.path.unlink()
            except FileNotFoundError:
                return False
    return True
