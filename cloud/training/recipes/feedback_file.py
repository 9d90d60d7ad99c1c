"""A data set's file, read for training: plain arrays of stated sizes, nothing pickled."""

from dataclasses import fields
from io import BytesIO
from pathlib import Path
from typing import Final

import numpy as np

from cloud.feedback.data_file import DataRows
from shared.errors import Malformed, TooLarge, Unknown
from shared.imaging.npz import unpack_npz

FILE_BYTES_MAX: Final = 2 << 30
UNPACKED_BYTES_MAX: Final = 4 << 30
_NAMES: Final = tuple(field.name for field in fields(DataRows))


def read_rows(path: Path) -> DataRows:
    """Raises `Unknown`, `TooLarge`, or `Malformed` when it is no file of `DataRows`."""
    if not path.is_file():
        raise Unknown(f"{path}: there is no such data set; the worker brings it before it begins")
    if (size := path.stat().st_size) > FILE_BYTES_MAX:
        raise TooLarge(f"{path}: {size} bytes; at most {FILE_BYTES_MAX} are read: lower rows_max")
    packed = unpack_npz(
        path.read_bytes(), str(path), bytes_max=UNPACKED_BYTES_MAX, arrays_max=len(_NAMES)
    )
    if missing := [name for name in _NAMES if f"{name}.npy" not in packed]:
        raise Malformed(f"{path}: lacks {', '.join(missing)}; make the data set anew")
    try:
        arrays = {
            name: np.lib.format.read_array(BytesIO(packed[f"{name}.npy"]), allow_pickle=False)
            for name in _NAMES
        }
    except ValueError as error:
        raise Malformed(f"{path}: {str(error)[:200]}; make the data set anew") from error
    lengths = {len(array) if array.ndim else -1 for array in arrays.values()}
    if len(lengths) != 1:
        raise Malformed(f"{path}: its arrays have {sorted(lengths)} rows; make the data set anew")
    return DataRows(**arrays)
