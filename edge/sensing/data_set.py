"""A data set on disk, opened for replay: numbered samples of the model's shape.

One file: IDX (also .gz), NPY, or NPZ with the member `images`. Or a folder of PNG, JPEG and NPY
files of one sample each, played in the order of their names.
"""

import gzip
import os
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from shared.errors import Malformed, TooLarge
from shared.imaging.decode import FILE_BYTES_MAX, decode_sample, decode_samples

SAMPLE_BYTES_MAX = 16 * 1024 * 1024
FILES_MAX = 1_000_000
_SUFFIXES = (".png", ".jpg", ".jpeg", ".npy")
_GZIP, _ZIP = b"\x1f\x8b", b"PK"


class DataSet(Protocol):
    def __len__(self) -> int: ...

    def position(self, index: int) -> str:
        """What people call this sample: its number, or its file's name."""
        ...

    def read(self, index: int) -> NDArray[np.uint8]:
        """uint8 of the model's shape. May block. Raises `Malformed`, `TooLarge` or `OSError`."""
        ...


def open_data_set(path: Path, shape: tuple[int, ...]) -> DataSet:
    """May block for seconds. Raises `Malformed` or `TooLarge` with the path in it."""
    try:
        if path.is_dir():
            return _Files(path, _names(path), shape)
        return _Array(decode_samples(_content(path), path.name, shape))
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile) as error:
        raise Malformed(
            f"{path}: cannot be read ({error}); name a data set file or a folder of images"
        ) from error


def read_bounded(path: Path, bytes_max: int) -> bytes:
    """A regular file's bytes, never through a symbolic link. Raises `OSError`, `TooLarge`."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        content = file.read(bytes_max + 1)
    if len(content) > bytes_max:
        raise TooLarge(f"{path.name}: over {bytes_max} bytes; one sample must be smaller")
    return content


@dataclass(frozen=True, slots=True)
class _Array:
    samples: NDArray[np.uint8]  # [N, *shape]

    def __len__(self) -> int:
        return len(self.samples)

    def position(self, index: int) -> str:
        return str(index)

    def read(self, index: int) -> NDArray[np.uint8]:
        return np.asarray(self.samples[index])


@dataclass(frozen=True, slots=True)
class _Files:
    folder: Path
    names: tuple[str, ...]
    shape: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.names)

    def position(self, index: int) -> str:
        return printable(self.names[index])

    def read(self, index: int) -> NDArray[np.uint8]:
        name = self.names[index]
        content = read_bounded(self.folder / name, SAMPLE_BYTES_MAX)
        return decode_sample(content, printable(name), self.shape)


def printable(name: str) -> str:
    """A file's name as text that every store takes: bytes that are no UTF-8 are replaced."""
    return os.fsencode(name).decode("utf-8", "replace")


def _names(folder: Path) -> tuple[str, ...]:
    with os.scandir(folder) as entries:
        names = [
            entry.name
            for entry in entries
            if entry.name.lower().endswith(_SUFFIXES) and entry.is_file(follow_symlinks=False)
        ]
    if not names:
        raise Malformed(f"{folder}: holds no {', '.join(_SUFFIXES)} files; name another folder")
    if len(names) > FILES_MAX:
        raise TooLarge(f"{folder}: {len(names)} files; at most {FILES_MAX} can be replayed")
    return tuple(sorted(names))


def _content(path: Path) -> bytes:
    with path.open("rb") as file:
        start = file.read(2)
        if start not in (_GZIP, _ZIP):
            return start + file.read(FILE_BYTES_MAX)
    if start == _GZIP:
        with gzip.open(path) as unpacked:
            return unpacked.read(FILE_BYTES_MAX + 1)
    with zipfile.ZipFile(path) as archive:
        if "images.npy" not in archive.namelist():
            raise Malformed(f"{path}: has no member 'images'; save it as numpy.savez(images=...)")
        with archive.open("images.npy") as member:
            return member.read(FILE_BYTES_MAX + 1)
