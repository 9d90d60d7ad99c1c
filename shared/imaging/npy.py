"""The NPY format, read without trust: the header is checked before anything is allocated.

Source: NEP 1 (numpy's enhancement proposal for the format), version 1.0, which is what numpy.save
writes for plain numbers. `numpy.load` allocates what a header claims, and falls back to running the
header through a tokenizer; here the claim must equal the bytes that follow it.
"""

import ast
import math
import re

import numpy as np
from numpy.typing import NDArray

from shared.errors import Malformed

_MAGIC = b"\x93NUMPY\x01\x00"
_START = len(_MAGIC) + 2
_HEADER_MAX = 1024
_RANK_MAX = 8
_PLAIN_NUMBER = re.compile(r"[<>|=]?[biuf][0-9]{1,2}")


def parse_npy(content: bytes, where: str) -> NDArray[np.generic]:
    """A read-only array of numbers or booleans; raises `Malformed` for whatever else it holds."""
    if not content.startswith(_MAGIC) or len(content) < _START:
        raise Malformed(f"{where}: not an NPY file of version 1.0; save it with numpy.save")
    start = _START + int.from_bytes(content[len(_MAGIC) : _START], "little")
    if start > min(len(content), _START + _HEADER_MAX):
        raise Malformed(f"{where}: cut short inside its header, or the header is no plain one")
    dtype, fortran_order, shape = _header(content[_START:start], where)
    wanted = math.prod(shape) * dtype.itemsize
    if len(content) - start != wanted:
        raise Malformed(
            f"{where}: header says {dtype}{list(shape)}, which is {wanted} bytes; "
            f"{len(content) - start} follow it"
        )
    flat = np.frombuffer(content, dtype, offset=start)
    return flat.reshape(shape, order="F" if fortran_order else "C")


def _header(text: bytes, where: str) -> tuple[np.dtype[np.generic], bool, tuple[int, ...]]:
    try:
        fields = ast.literal_eval(text.decode("latin-1").strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise Malformed(f"{where}: its NPY header is damaged; save it with numpy.save") from error
    match fields:
        case {"descr": str(descr), "fortran_order": bool(fortran_order), "shape": tuple(shape)}:
            pass
        case _:
            raise Malformed(
                f"{where}: its NPY header is not one of plain numbers; save it with numpy.save"
            )
    if not _PLAIN_NUMBER.fullmatch(descr):
        raise Malformed(f"{where}: dtype {descr[:40]!r} is not a plain number; save it as uint8")
    if len(shape) > _RANK_MAX or not all(type(size) is int and size >= 0 for size in shape):
        raise Malformed(
            f"{where}: shape {str(shape)[:80]}; at most {_RANK_MAX} sizes, none below 0"
        )
    try:
        return np.dtype(descr), fortran_order, shape
    except TypeError as error:
        raise Malformed(f"{where}: dtype {descr!r} is not one that numpy knows") from error
