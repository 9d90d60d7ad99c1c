"""From an input's bytes to the model's rows: one reading for all shapes of batch. Pure.

What `shared.imaging` reads, and `.npz`: of its arrays the one that fits the model.
"""

from pathlib import PurePosixPath

import numpy as np
from numpy.typing import NDArray

from shared.errors import Malformed, TooLarge
from shared.imaging.decode import FILE_BYTES_MAX, decode_samples
from shared.imaging.npy import parse_npy
from shared.imaging.npz import unpack_npz

_ZIP = b"PK\x03\x04"
_MEMBERS_MAX = 64
_ONE_ROW = frozenset({".png", ".jpg", ".jpeg"})

Pixels = NDArray[np.uint8]


def rows_of(content: bytes, name: str, shape: tuple[int, ...]) -> Pixels:
    """uint8 [N, *shape], N >= 1; raises `Malformed` or `TooLarge`."""
    if not content.startswith(_ZIP):
        return decode_samples(content, name, shape)
    if len(content) > FILE_BYTES_MAX:
        raise TooLarge(f"{name}: {len(content)} bytes; at most {FILE_BYTES_MAX} are read")
    fitting = {
        member: array
        for member, array in _arrays(content, name).items()
        if array.dtype == np.uint8 and len(array) and shape in (array.shape, array.shape[1:])
    }
    if len(fitting) != 1:
        found = f"{len(fitting)} arrays fit ({', '.join(sorted(fitting))})" if fitting else "none"
        raise Malformed(
            f"{name}: one array must be uint8 [N, {', '.join(map(str, shape))}]; {found[:200]}"
        )
    (array,) = fitting.values()
    pixels = array.astype(np.uint8, copy=False)
    return pixels[None] if pixels.shape == shape else pixels


def rows_expected(name: str, size_bytes: int, row_bytes: int) -> int:
    """How many rows an input holds, judged before it is read; for plans and progress only."""
    if PurePosixPath(name).suffix.lower() in _ONE_ROW:
        return 1
    return max(1, size_bytes // row_bytes)


def _arrays(content: bytes, name: str) -> dict[str, NDArray[np.generic]]:
    unpacked = unpack_npz(content, name, bytes_max=FILE_BYTES_MAX, arrays_max=_MEMBERS_MAX)
    return {
        member: parse_npy(array, f"{name}: {member[:80]}") for member, array in unpacked.items()
    }
