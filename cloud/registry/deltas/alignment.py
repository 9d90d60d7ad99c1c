"""Which range of the old file each range of the new one comes from.

Weights go by name; what lies between them, and a file that has none, by size, or by how much of its
beginning and end is the same.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cloud.registry.deltas.onnx_layout import Weight, weights
from shared.delta.decoder import Operation

_STEP = 1 << 16  # bytes compared at once


@dataclass(frozen=True, slots=True)
class _Anchor:
    """`length` bytes at `new` in the new file belong to those at `old` in the old one."""

    new: int
    old: int
    length: int


def align(old: bytes, new: bytes) -> list[Operation]:
    """Operations that make all of `new`, in order; neighbours are one."""
    before, after = np.frombuffer(old, np.uint8), np.frombuffer(new, np.uint8)
    anchors = [
        _Anchor(0, 0, 0),
        *_by_name(weights(old), weights(new)),
        _Anchor(len(new), len(old), 0),
    ]
    operations: list[Operation] = []
    for left, right in pairwise(anchors):
        _add(operations, Operation(left.old, left.length))
        gap = after[left.new + left.length : right.new]
        for operation in _gap(before, gap, left.old + left.length, right.old):
            _add(operations, operation)
    return operations


def _by_name(old: list[Weight], new: list[Weight]) -> list[_Anchor]:
    """A weight that grew or shrank keeps its beginning: rows of a classifier are classes."""
    known = {weight.name: weight for weight in old}
    return [
        _Anchor(weight.start, was.start, min(weight.length, was.length))
        for weight in new
        if (was := known.get(weight.name)) is not None
    ]


def _gap(old: NDArray[np.uint8], gap: NDArray[np.uint8], start: int, end: int) -> list[Operation]:
    """`gap` lies where `start` to before `end` of the old file lay, if that is a range at all."""
    if end - start == len(gap):
        return [Operation(start, len(gap))]
    head = _same(old[start : start + len(gap)], gap)
    rest = gap[head:]
    tail = _same(old[max(end - len(rest), 0) : end][::-1], rest[::-1])
    return [
        Operation(start, head),
        Operation(None, len(rest) - tail),
        Operation(end - tail, tail),
    ]


def _same(left: NDArray[np.uint8], right: NDArray[np.uint8]) -> int:
    """How many bytes from the beginning are equal."""
    length = min(len(left), len(right))
    for at in range(0, length, _STEP):
        until = min(at + _STEP, length)
        differs = left[at:until] != right[at:until]
        if differs.any():
            return at + int(differs.argmax())
    return length


def _add(operations: list[Operation], following: Operation) -> None:
    if not following.length:
        return
    last = operations[-1] if operations else None
    if last is not None and _continues(last, following):
        operations[-1] = Operation(last.offset, last.length + following.length)
    else:
        operations.append(following)


def _continues(last: Operation, following: Operation) -> bool:
    if last.offset is None or following.offset is None:
        return last.offset is following.offset
    return last.offset + last.length == following.offset
