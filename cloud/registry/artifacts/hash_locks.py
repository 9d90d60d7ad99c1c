"""Who stores or asks about an artifact, and who removes it, exclude each other.

By `flock` on one of 256 files, by the hash's first byte: across the threads and the processes of one
registry, and given back by the kernel when a process is killed.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cloud.registry.artifacts.folder_blobs import in_words, make_folder


class HashLocks:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def keep(self, sha256: str) -> Iterator[None]:
        """Nobody removes it meanwhile; waits for a removal to end."""
        with self._file(sha256) as handle:
            fcntl.flock(handle, fcntl.LOCK_SH)
            yield

    @contextmanager
    def remove(self, sha256: str, *, wait: bool = False) -> Iterator[bool]:
        """Nobody keeps it meanwhile. Unless `wait`: False, at once, when somebody does."""
        with self._file(sha256) as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True

    @contextmanager
    def _file(self, sha256: str) -> Iterator[int]:
        path = self._folder / sha256[:2]
        with in_words(str(self._folder)):
            make_folder(self._folder)
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            yield handle
        finally:
            os.close(handle)
