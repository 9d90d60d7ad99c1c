"""A file of whole lines that is rotated by size. Used by one thread, whose process owns it."""

import fcntl
import os
from pathlib import Path

from cloud.monitoring.settings import BLOCK_BYTES
from shared.errors import InUse

_SHARERS_MAX = 64


def claim(folder: Path) -> tuple[str, int]:
    """The first of `inference`, `inference-2`, ... that no other process has, with its open lock.

    The kernel drops the lock with the process. Raises OSError, `InUse` when all are taken.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(1, _SHARERS_MAX + 1):
        stem = "inference" if number == 1 else f"inference-{number}"
        lock = os.open(folder / f"{stem}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
        except BaseException:
            os.close(lock)
            raise
        else:
            return stem, lock
    raise InUse(f"{folder}: {_SHARERS_MAX} processes log here; give some a state_dir of their own")


class LogFile:
    """`path`, then `path`.1 and so on, the higher the older. Opened by the first write."""

    def __init__(self, path: Path, *, bytes_max: int, files_max: int) -> None:
        self._path, self._bytes_max, self._files_max = path, bytes_max, files_max
        self._file: int | None = None
        self._size = 0

    def write(self, lines: bytes) -> int:
        """Append whole lines, `BLOCK_BYTES` at most; how many of them are in the file now.

        Fewer when the disk had no room for all. Raises OSError when it took none.
        """
        if self._file is None:
            self._open()
        if self._size and self._size + len(lines) > self._bytes_max:
            self._rotate()
        assert self._file is not None
        taken = os.write(self._file, lines)
        if taken < len(lines):
            taken = lines.rfind(b"\n", 0, taken) + 1
            os.ftruncate(self._file, self._size + taken)
        self._size += taken
        return lines.count(b"\n", 0, taken)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        file = os.open(self._path, flags, 0o600)
        try:
            self._size = _whole_lines(file)
        except BaseException:
            os.close(file)
            raise
        self._file = file

    def _rotate(self) -> None:
        self.close()
        for number in range(self._files_max - 1, 0, -1):
            younger = self._numbered(number - 1)
            if younger.exists():
                younger.replace(self._numbered(number))
        if self._files_max == 1:
            self._path.unlink()
        self._open()

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path


def _whole_lines(file: int) -> int:
    """Cut off what a kill left of a last line; the size of the rest."""
    size = os.fstat(file).st_size
    tail = os.pread(file, min(size, BLOCK_BYTES), max(0, size - BLOCK_BYTES))
    whole = size - len(tail) + tail.rfind(b"\n") + 1
    if whole < size:
        os.ftruncate(file, whole)
    return whole
