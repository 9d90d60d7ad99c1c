"""The file of a data set: a zip of plain arrays, one row a sample, nothing pickled.

Its name is the SHA-256 of its arrays (names, dtypes, shapes, bytes, in the order below), not of the
zip, whose compression may differ from one machine to another.
"""

import hashlib
import io
import re
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from shared.errors import Malformed, NotTrusted
from shared.imaging.npy import parse_npy
from shared.imaging.npz import unpack_npz

NO_SITE = ""
BYTES_MAX: Final = 2 * 1024**3
"""Of all arrays of a file that is read, unpacked."""
_TEXT: Final = {"ids": 36, "devices": 64, "sites": 63}
"""Arrays of text, and how long one may be."""
_TEXT_HEADER: Final = re.compile(
    rb"\x93NUMPY\x01\x00[\x00-\xff]{2}\{'descr': '<U([0-9]{1,3})', 'fortran_order': False, "
    rb"'shape': \(([0-9]{1,9}),\), \} {0,64}\n"
)


@dataclass(frozen=True, slots=True)
class DataRows:
    """N samples in the order of their ids."""

    inputs: NDArray[np.generic]
    """[N, ...] as the model takes them (uint8), decoded."""
    labels: NDArray[np.int64]
    """[N], of the highest rank."""
    soft: NDArray[np.float32]
    """[N, classes]: the cloud's calibrated probabilities, whoever the label is from."""
    sources: NDArray[np.uint8]
    """[N]: 0 person, 1 cloud, 2 edge."""
    shares: NDArray[np.float32]
    """[N]: with which probability a sample like it was sent."""
    edge_labels: NDArray[np.int64]
    """[N]: what the edge had said."""
    holdout: NDArray[np.bool_]
    """[N]: to measure on, never to train on."""
    captured: NDArray[np.float64]
    """[N], Unix seconds by the device's clock."""
    ids: NDArray[np.str_]
    """[N], UUIDs as text."""
    devices: NDArray[np.str_]
    """[N]."""
    sites: NDArray[np.str_]
    """[N]; `NO_SITE`: none."""

    def __len__(self) -> int:
        return len(self.labels)


def content_hash(rows: DataRows) -> str:
    """SHA-256, in hex."""
    digest = hashlib.sha256()
    for field in fields(rows):
        array = np.ascontiguousarray(getattr(rows, field.name))
        digest.update(f"{field.name} {array.dtype.str} {array.shape};".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def write_rows(rows: DataRows) -> bytes:
    """The file."""
    file = io.BytesIO()
    arrays: dict[str, Any] = {
        field.name: np.ascontiguousarray(getattr(rows, field.name)) for field in fields(rows)
    }
    np.savez_compressed(file, allow_pickle=False, **arrays)
    return file.getvalue()


def read_rows(
    content: bytes, where: str, sha256: str | None = None, bytes_max: int = BYTES_MAX
) -> DataRows:
    """Read a file without trust; with `sha256`, its content must have this hash.

    Raises `Malformed` or `TooLarge` for what is no such file, `NotTrusted` for another hash.
    """
    names = [field.name for field in fields(DataRows)]
    found = unpack_npz(content, where, bytes_max=bytes_max, arrays_max=len(names))
    if set(found) != {f"{name}.npy" for name in names}:
        raise Malformed(f"{where}: is no data set; it must hold {', '.join(names)}, nothing else")
    arrays: dict[str, Any] = {}
    for name in names:
        at = f"{where}: {name}"
        packed = found[f"{name}.npy"]
        arrays[name] = _text(packed, at, _TEXT[name]) if name in _TEXT else parse_npy(packed, at)
    rows = DataRows(**arrays)
    _check(rows, where)
    if sha256 is not None and (is_ := content_hash(rows)) != sha256:
        raise NotTrusted(
            f"{where}: its content has the SHA-256 {is_}, not {sha256}: the file is damaged or "
            "another one; fetch it again, or build the data set anew"
        )
    return rows


_KINDS: Final = {
    "labels": "<i8", "soft": "<f4", "sources": "|u1", "shares": "<f4", "edge_labels": "<i8",
    "holdout": "|b1", "captured": "<f8",
}  # fmt: skip


def _check(rows: DataRows, where: str) -> None:
    count = len(rows.labels) if rows.labels.ndim == 1 else -1
    for name, kind in _KINDS.items():
        array = getattr(rows, name)
        if array.dtype.str != kind or array.ndim != (2 if name == "soft" else 1):
            raise Malformed(f"{where}: {name} are {array.dtype.str}{list(array.shape)}, not {kind}")
    for field in fields(rows):
        array = getattr(rows, field.name)
        if not array.ndim or len(array) != count:
            raise Malformed(f"{where}: {field.name} has {array.shape} for {count} labels")
    classes = rows.soft.shape[1]
    if count and not 0 <= int(rows.labels.min()) <= int(rows.labels.max()) < classes:
        raise Malformed(f"{where}: a label is outside of the {classes} classes")
    if not (np.isfinite(rows.soft).all() and ((rows.shares > 0) & (rows.shares <= 1)).all()):
        raise Malformed(f"{where}: soft labels must be finite, shares above 0 and at most 1")
    if count and int(rows.sources.max()) > 2:
        raise Malformed(f"{where}: a source is none of 0 (person), 1 (cloud), 2 (edge)")


def _text(content: bytes, where: str, length_max: int) -> NDArray[np.str_]:
    """NPY 1.0 of `<U` [N], which `shared.imaging.npy` refuses, for it reads numbers alone."""
    header = _TEXT_HEADER.match(content)
    size, count = (int(header[1]), int(header[2])) if header else (0, 0)
    start = header.end() if header else 0
    if not 0 < size <= length_max or len(content) - start != count * size * 4:
        raise Malformed(f"{where}: must be text [N] of at most {length_max} characters")
    found = np.frombuffer(content, f"<U{size}", offset=start)
    points = np.frombuffer(content, "<u4", offset=start)
    if points.size and int(points.max()) > 0x10FFFF:
        raise Malformed(f"{where}: holds what is no Unicode text")
    return found
