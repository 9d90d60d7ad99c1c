"""The NPY format, read without trust: the header is checked before anything is allocated.

Source: NEP 1 (numpy's enhancement proposal for the format). `numpy.load` allocates what a header
claims; here the claim must equal the bytes that follow it.
"""

import math
from io import BytesIO

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from shared.errors import Malformed

_RANK_MAX = 8


def parse_npy(content: bytes, where: str) -> NDArray[np.generic]:
    """A read-only array of numbers or booleans; raises `Malformed` for whatever else it holds."""
    stream = BytesIO(content)
    try:
        version = npy_format.read_magic(stream)
        if version == (1, 0):
            shape, fortran_order, dtype = npy_format.read_array_header_1_0(stream)
        elif version == (2, 0):
            shape, fortran_order, dtype = npy_format.read_array_header_2_0(stream)
        else:
            raise Malformed(f"{where}: NPY format {version}; save it with numpy.save")
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        raise Malformed(f"{where}: not a readable NPY file: {_short(error)}") from error
    if dtype.kind not in "biuf":
        raise Malformed(
            f"{where}: dtype {dtype} is not a plain number; save it as uint8 or float32"
        )
    if len(shape) > _RANK_MAX or any(size < 0 for size in shape):
        raise Malformed(
            f"{where}: shape {str(shape)[:80]}; at most {_RANK_MAX} sizes, none negative"
        )
    start, wanted = stream.tell(), math.prod(shape) * dtype.itemsize
    if len(content) - start != wanted:
        raise Malformed(
            f"{where}: header says {dtype}{list(shape)}, which is {wanted} bytes; "
            f"{len(content) - start} follow it"
        )
    flat = np.frombuffer(content, dtype, offset=start)
    return flat.reshape(shape, order="F" if fortran_order else "C")


def _short(error: BaseException) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__
