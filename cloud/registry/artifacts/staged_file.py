"""One unfinished upload on disk: `<sha256>.<total bytes>.part`, with the hash of what is in it.

The writer holds an exclusive `flock` on it: one at a time, across processes, and the kernel gives it
back when the process is killed. What is in the file then is a beginning to go on from.
"""

import fcntl
import hashlib
import os
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING

from cloud.registry.artifacts.folder_blobs import in_words
from shared.errors import Conflict

if TYPE_CHECKING:
    from hashlib import _Hash

_PART = 1 << 20
_SUFFIX = ".part"
_NAME = re.compile(r"([0-9a-f]{64})\.([0-9]{1,18})\.part")


@dataclass(frozen=True, slots=True)
class Staged:
    """An unfinished upload as it lies there. `touched_at`: Unix seconds."""

    path: Path
    sha256: str
    total_bytes: int
    bytes: int
    touched_at: float


class StagedFile:
    """Its writer. Any thread may call; `close` may overtake the others, which then do nothing.

    All raise `Unavailable`; where writing or syncing failed, the file is dropped: a full disk gets
    its room back, and after a failed sync nobody knows what is on the disk (Rebello et al., "Can
    applications recover from fsync failures?", 2020).
    """

    def __init__(self, folder: Path, sha256: str, total_bytes: int) -> None:
        self.path = folder / f"{sha256}.{total_bytes}{_SUFFIX}"
        self.size = 0
        self.hash = hashlib.sha256()
        self._where = f"upload {sha256[:16]}..."
        self._file: FileIO | None = None
        self._closed = False
        self._alone = threading.Lock()

    def lock(self) -> None:
        """Make it, or take what is there. Raises `Conflict` while another writer has it."""
        with self._alone, in_words(self._where):
            if self._closed:
                raise Conflict(f"{self._where}: given up")
            file = FileIO(self.path, "a+", opener=_no_link)
            if not self._is_mine(file):
                file.close()
                raise Conflict(
                    f"{self._where}: somebody else is sending it; ask again where it stands"
                )
            self._file = file

    def load(self, known: "tuple[int, _Hash] | None") -> None:
        """Hash what is there, unless `known` (a size, and the hash of so many bytes) says it."""
        with self._alone, in_words(self._where):
            file = self._opened()
            if known is not None and known[0] == os.fstat(file.fileno()).st_size:
                self.size, self.hash = known
                return
            file.seek(0)
            while part := file.read(_PART):
                self.hash.update(part)
                self.size += len(part)

    def write(self, parts: list[bytes]) -> None:
        content = b"".join(parts)
        with self._alone, in_words(self._where):
            file = self._opened()
            try:
                left = memoryview(content)
                while left:
                    left = left[file.write(left) :]
            except OSError:
                self._drop()
                raise
            self.hash.update(content)
            self.size += len(content)

    def move(self, move_in: Callable[[Path], None]) -> None:
        """Sync it, and let `move_in` take the file away; then it is closed."""
        with self._alone:
            file = self._sync()
            move_in(self.path)
            self._file = None
            file.close()

    def discard(self) -> None:
        """Its bytes are of no use to anyone."""
        with self._alone, in_words(self._where):
            self._opened()
            self._drop()

    def close(self) -> bool:
        """Give the lock back; what was written stays, and was synced. False when nothing does."""
        with self._alone:
            self._closed = True
            if self._file is None:
                return False
            with in_words(self._where):
                if not self.size:
                    self._drop()
                    return False
            file = self._sync()
            self._file = None
            file.close()
            return True

    def _opened(self) -> FileIO:
        if self._file is None:
            raise Conflict(f"{self._where}: given up")
        return self._file

    def _sync(self) -> FileIO:
        with in_words(self._where):
            file = self._opened()
            try:
                os.fsync(file.fileno())
            except OSError:
                self._drop()
                raise
        return file

    def _is_mine(self, file: FileIO) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            there, found = self.path.stat(), os.fstat(file.fileno())
        except (BlockingIOError, FileNotFoundError):
            return False
        # another file: the writer before moved it in, or dropped it, between opening and locking
        return (there.st_dev, there.st_ino) == (found.st_dev, found.st_ino)

    def _drop(self) -> None:
        self.path.unlink(missing_ok=True)
        if self._file is not None:
            self._file.close()
            self._file = None


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def staged_files(folder: Path) -> list[Staged]:
    """All unfinished uploads, the longest forgotten first. Raises `Unavailable`."""
    found = []
    with in_words(str(folder)):
        for path in folder.glob(f"*{_SUFFIX}"):
            if (name := _NAME.fullmatch(path.name)) is None:
                continue  # not its own
            try:
                stat = path.lstat()
            except FileNotFoundError:
                continue
            if not S_ISREG(stat.st_mode):
                continue  # a link leads to a file that is none of ours
            found.append(Staged(path, name[1], int(name[2]), stat.st_size, stat.st_mtime))
    return sorted(found, key=lambda one: one.touched_at)


def drop_idle(staged: Staged) -> bool:
    """Remove an upload that nobody is writing. False when somebody is, or it is gone."""
    with in_words(staged.path.name):
        try:
            file = FileIO(staged.path, "r+", opener=_no_link)
        except FileNotFoundError:
            return False
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                staged.path.unlink()
            except (BlockingIOError, FileNotFoundError):
                return False
    return True
