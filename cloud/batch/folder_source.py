"""A folder with all that is below it, or one file.

Walked here and not by obstore, whose listing ends at the first name that is not UTF-8 and at the
first link that loops: one bad name must not stop a batch. Links are not followed, because whoever
may write into the folder could point them anywhere.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from cloud.batch.source import FILES_MAX, Found
from shared.errors import Malformed, Refused, TooLarge, Unknown


class FolderSource:
    """Names that begin with a dot are left out, as by `ls`."""

    def __init__(self, path: Path, files_max: int = FILES_MAX) -> None:
        """Raises `Unknown` when nothing is there."""
        if not path.exists():
            raise Unknown(f"{path}: there is no such file or folder")
        self._path, self._files_max = path.resolve(), files_max

    @property
    def where(self) -> str:
        return str(self._path)

    def find(self) -> list[Found]:
        if not self._path.is_dir():
            return [_found(self._path.name, self._path.stat())]
        found: list[Found] = []
        for one in _below(self._path, ""):
            found.append(one)
            if len(found) > self._files_max:
                raise TooLarge(f"{self._path}: over {self._files_max} files; split the folder")
        return sorted(found, key=lambda one: one.name)

    def read(self, found: Found) -> bytes:
        path = self._path / found.name if self._path.is_dir() else self._path
        try:
            number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(number, "rb") as file:
                if _found(found.name, os.fstat(number)) != found:
                    raise Malformed(f"{found.name}: changed after it was listed; run again")
                return file.read(found.size_bytes)
        except OSError as error:
            raise Malformed(f"{found.name}: cannot be read: {error.strerror}") from error


def _below(folder: Path, prefix: str) -> Iterator[Found]:
    """Depth is bounded by the longest path that the system opens."""
    try:
        entries = list(os.scandir(folder))
    except OSError as error:
        if not prefix:
            raise Refused(f"{folder}: cannot be listed: {error.strerror}") from error
        yield Found(prefix, 0, "", 0.0, f"the folder cannot be listed: {error.strerror}")
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        name = prefix + entry.name
        if not _is_utf8(entry.name):
            shown = os.fsencode(name).decode("utf-8", "backslashreplace")
            yield Found(shown, 0, "", 0.0, "its name is not UTF-8; rename it")
        elif entry.is_dir(follow_symlinks=False):
            yield from _below(folder / entry.name, name + "/")
        else:
            try:
                yield _found(name, entry.stat(follow_symlinks=False))
            except FileNotFoundError:
                continue  # gone since


def _found(name: str, status: os.stat_result) -> Found:
    why_not = None
    if stat.S_ISLNK(status.st_mode):
        why_not = "a link, which is not followed; put the file itself here"
    elif not stat.S_ISREG(status.st_mode):
        why_not = "neither a file nor a folder"
    tag = f"{status.st_mtime_ns:x}"
    return Found(name, status.st_size, tag, status.st_mtime_ns / 1e9, why_not)


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
