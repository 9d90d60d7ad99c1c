"""The folder's files: list, decode, remove, set aside. Everything in here blocks."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edge.sensing.data_set import SAMPLE_BYTES_MAX, printable, read_bounded
from edge.sensing.folder_progress import Entry
from shared.errors import Malformed, TooLarge

REFUSED = ".refused"
REFUSED_FILES_MAX = 100
_UNFINISHED = (".tmp", ".part", ".partial")

Decode = Callable[[bytes, str, tuple[int, ...]], NDArray[np.uint8]]


def entries(folder: Path) -> Iterator[Entry]:
    """Regular files but hidden ones and those whose name says unfinished. Raises `OSError`."""
    with os.scandir(folder) as found:
        for item in found:
            if item.name.startswith(".") or item.name.endswith(_UNFINISHED):
                continue
            try:
                if item.is_file(follow_symlinks=False):
                    stat = item.stat(follow_symlinks=False)
                    yield Entry(stat.st_ctime_ns, item.name, stat.st_size)
            except FileNotFoundError:
                continue  # gone since it was listed


def load(
    folder: Path, entry: Entry, shape: tuple[int, ...], decode: Decode
) -> NDArray[np.uint8] | Exception | None:
    """The tensor, why it is refused, or None when the file was changed or taken away meanwhile."""
    if entry.size > SAMPLE_BYTES_MAX:
        return TooLarge(f"{entry.size} bytes; at most {SAMPLE_BYTES_MAX} are read as one sample")
    try:
        content = read_bounded(folder / entry.name, SAMPLE_BYTES_MAX)
        if not _unchanged(folder, entry):
            return None
        return decode(content, printable(entry.name), shape)
    except FileNotFoundError:
        return None
    except (Malformed, TooLarge, OSError) as error:
        return error


def delete(folder: Path, entry: Entry) -> bool:
    """True when it is gone. What was written over it since is another file, and stays."""
    try:
        if _unchanged(folder, entry):
            (folder / entry.name).unlink()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def set_aside(folder: Path, entry: Entry) -> bool:
    """Into `.refused/`, or away when that holds `REFUSED_FILES_MAX`. True when it is gone."""
    aside = folder / REFUSED
    try:
        aside.mkdir(exist_ok=True)
        if sum(1 for _ in aside.iterdir()) >= REFUSED_FILES_MAX:
            return delete(folder, entry)
        (folder / entry.name).replace(aside / entry.name)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _unchanged(folder: Path, entry: Entry) -> bool:
    stat = (folder / entry.name).lstat()
    return (stat.st_ctime_ns, stat.st_size) == (entry.changed_ns, entry.size)
