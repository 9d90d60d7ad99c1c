"""A file that is not whole yet: its bytes, and the hash of them. Blocking; for a worker thread.

Beside the target `model.onnx` lie `model.onnx.partial` and, for If-Range, `model.onnx.etag`. After a
kill -9 the bytes that are there are hashed again: what a process knew is not believed, the file is.
"""

import hashlib
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from shared.disk import sync_folder, writing
from shared.errors import NotTrusted

_PIECE = 1024 * 1024


class Partial:
    def __init__(self, target: Path, size: int) -> None:
        """Open or make the partial file of `target`, which will have `size` bytes.

        Raises `NoRoom` on a full disk, `Unavailable` when it cannot be written.
        """
        self.target, self.size = target, size
        self._path = beside(target, ".partial")
        self._etag_path = beside(target, ".etag")
        with writing(target):
            self._file: BinaryIO = os.fdopen(
                os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644),
                "r+b",
                buffering=0,
            )
        try:
            self._resume()
        except BaseException:
            self._file.close()
            raise

    def _resume(self) -> None:
        self.offset = 0
        self._hash = hashlib.sha256()
        while piece := self._file.read(_PIECE):
            self._hash.update(piece)
            self.offset += len(piece)
            if self.offset > self.size:
                self.restart()
                return

    @property
    def etag(self) -> str | None:
        """Of the file that the bytes here came from."""
        with suppress(OSError, UnicodeDecodeError):
            return self._etag_path.read_bytes()[:300].decode("ascii")
        return None

    def remember(self, etag: str | None) -> None:
        with suppress(OSError):  # without it a resumed transfer is checked by its hash alone
            if etag is None:
                self._etag_path.unlink(missing_ok=True)
            else:
                self._etag_path.write_text(etag, "ascii")

    def restart(self) -> None:
        """Forget what is here."""
        with writing(self.target):
            self._file.seek(0)
            self._file.truncate()
        self.offset, self._hash = 0, hashlib.sha256()
        self.remember(None)

    def write(self, piece: Iterable[bytes]) -> None:
        """Append. Raises `NoRoom` on a full disk; what was written of the piece stays."""
        with writing(self.target):
            for chunk in piece:
                rest = memoryview(chunk)
                while rest:
                    done = self._file.write(rest)
                    self._hash.update(rest[:done])
                    self.offset += done
                    rest = rest[done:]

    def finish(self, sha256: str) -> None:
        """Check the whole, make it durable, and move it to its place.

        Raises `NotTrusted` when it is not what was asked for; the bytes are gone then.
        """
        found = self._hash.hexdigest()
        if self.offset != self.size or found != sha256:
            size = self.offset
            self.restart()
            raise NotTrusted(
                f"{self.target.name}: came with {size} bytes and sha256 {found[:16]}..., expected "
                f"{self.size} and {sha256[:16]}...; it was thrown away"
            )
        with writing(self.target):
            os.fsync(self._file.fileno())
            self._path.replace(self.target)
        self.remember(None)
        sync_folder(self.target.parent)

    def close(self) -> None:
        self._file.close()


def beside(target: Path, suffix: str) -> Path:
    return target.with_name(target.name + suffix)


def discard(target: Path) -> None:
    """Remove what a transfer that was given up has left beside `target`."""
    for suffix in (".partial", ".etag"):
        with suppress(OSError):
            beside(target, suffix).unlink(missing_ok=True)
