"""The IDX format of the MNIST family: magic, sizes, then unsigned bytes.

Source: the format note on the MNIST page (LeCun, Cortes, Burges): two zero bytes, a type byte
(0x08 is unsigned byte), the number of dimensions, then each size as a big-endian uint32.
"""

import math

import numpy as np
from numpy.typing import NDArray

from shared.errors import Malformed

_UNSIGNED_BYTE = 0x08


def parse_idx(content: bytes, where: str) -> NDArray[np.uint8]:
    """A read-only uint8 array of the shape that the header states.

    Raises `Malformed` when the header is not IDX of unsigned bytes or the length disagrees.
    """
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != _UNSIGNED_BYTE:
        raise Malformed(f"{where}: not an IDX file of unsigned bytes (magic {content[:4].hex()})")
    header = 4 + 4 * content[3]
    if len(content) < header:
        raise Malformed(f"{where}: cut short inside its header, at byte {len(content)}")
    shape = tuple(int.from_bytes(content[i : i + 4], "big") for i in range(4, header, 4))
    if len(content) - header != math.prod(shape):
        raise Malformed(
            f"{where}: header says {shape}, which is {math.prod(shape)} bytes; "
            f"{len(content) - header} follow it"
        )
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)
