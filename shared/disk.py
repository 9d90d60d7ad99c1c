"""Files that are whole on a disk or as they were before, and what a disk refuses, in our words."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from shared.errors import Overloaded, Unavailable

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class NoRoom(Overloaded):
    """The disk, a quota or a size limit is full: trying again at once changes nothing."""


def write_whole(path: Path, content: bytes, *, durable: bool = True, private: bool = False) -> None:
    """Replace a file, or leave it as it was; with `durable` it stands a power cut once this returns.
    With `private` nobody but this user ever reads it (mode 0600).

    Makes its folder. One writer at a time: written beside it as `.NAME.tmp`, which a kill may leave
    behind and the next call removes. Raises `NoRoom` or another `Unavailable`.
    """
    beside = path.with_name(f".{path.name}.tmp")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.unlink(missing_ok=True)  # a killed writer's, or a link to a file of another's choice
        try:
            with open(beside, "xb", opener=_private if private else None) as file:
                file.write(content)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            beside.replace(path)
        except BaseException:
            with suppress(OSError):
                beside.unlink()
            raise
    if durable:
        sync_folder(path.parent)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def sync_folder(folder: Path) -> None:
    """Make the names in it durable. Raises `Unavailable`."""
    with writing(folder):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Translate what the file system says: `NoRoom` for that, else `Unavailable`."""
    try:
        yield
    except OSError as error:
        said = error.strerror or str(error)
        if error.errno in _NO_ROOM:
            raise NoRoom(f"{path}: no room to write it: {said}; free space on its disk") from error
        raise Unavailable(
            f"{path}: cannot write it: {said}; fix its folder's rights or disk"
        ) from error
