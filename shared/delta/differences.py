"""Differences of bytes, four in one byte while they are small (`shared/delta` says how)."""

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

_SMALL: Final = np.array([0, 1, 255], np.uint8)  # by their codes
_OTHER: Final = 3
_SHIFTS: Final = np.arange(0, 8, 2, dtype=np.uint8)
_CODE_OF: Final = np.full(256, _OTHER, np.uint8)
_CODE_OF[_SMALL] = np.arange(3)
_CODES: Final = np.arange(256, dtype=np.uint8)[:, None] >> _SHIFTS & 3  # [256, 4]: a byte's codes
_VALUES: Final = np.append(_SMALL, np.uint8(0))[_CODES]  # [256, 4]
_BLOCK: Final = 1 << 18  # differences at once; a multiple of four


def pack(differences: Bytes) -> tuple[bytes, bytes]:
    """`differences` [N] to the codes, ceil(N / 4) bytes, and the others."""
    codes, others = [], []
    for at in range(0, len(differences), _BLOCK):  # indexing takes eight bytes for each one
        block = differences[at : at + _BLOCK]
        found = _CODE_OF[block]
        others.append(block[found == _OTHER].tobytes())
        padded = np.zeros((len(found) + 3) // 4 * 4, np.uint8)
        padded[: len(found)] = found
        codes.append(np.bitwise_or.reduce(padded.reshape(-1, 4) << _SHIFTS, axis=1).tobytes())
    return b"".join(codes), b"".join(others)


class Differences:
    """Unpacks a block at a time."""

    def __init__(
        self, codes: Callable[[Bytes], None], others: Callable[[Bytes], None], count: int
    ) -> None:
        """`codes` and `others` fill an array with their next bytes; `count` differences come."""
        self._codes, self._others, self._left = codes, others, count
        self._block = np.empty(0, np.uint8)

    def add(self, part: Bytes, old: Bytes) -> None:
        """Fill `part` with `old` and the next differences. Together no more than `count`."""
        at = 0
        while at < len(part):
            if not len(self._block):
                self._block = self._next_block()
            count = min(len(part) - at, len(self._block))
            np.add(old[at : at + count], self._block[:count], out=part[at : at + count])
            self._block = self._block[count:]
            at += count

    def _next_block(self) -> Bytes:
        count = min(self._left, _BLOCK)
        self._left -= count
        joined = np.empty((count + 3) // 4, np.uint8)
        self._codes(joined)
        values: Bytes = _VALUES[joined].reshape(-1)[:count]
        other = _CODES[joined].reshape(-1)[:count] == _OTHER
        found = np.empty(int(other.sum()), np.uint8)
        self._others(found)
        values[other] = found
        return values
