"""Write a delta (`shared/delta` describes the format).

Takes CPU time: some 0.1 s a megabyte; never on an event loop.
"""

import hashlib

import numpy as np
import zstandard

from cloud.registry.deltas.alignment import align
from shared.delta.differences import pack
from shared.delta.header import LITERAL, WINDOW_LOG, Header

_LEVELS = (1, 9)  # where matches cost more than they save, the lower one is the shorter
_PUBLISHED_BELOW = 0.6  # of the whole file: below that a device's work for it pays off


def encode(old: bytes, new: bytes) -> bytes:
    """What makes `new` of `old`; any bytes."""
    operations = align(old, new)
    before, after = np.frombuffer(old, np.uint8), np.frombuffer(new, np.uint8)
    table = np.empty((len(operations), 2), "<u8")
    differences = np.empty(
        sum(one.length for one in operations if one.offset is not None), np.uint8
    )
    literals: list[memoryview] = []
    at = filled = 0
    for row, operation in zip(table, operations, strict=True):
        part = after[at : at + operation.length]
        at += operation.length
        if operation.offset is None:
            row[:] = LITERAL, operation.length
            literals.append(part.data)
        else:
            row[:] = operation.offset, operation.length
            was = before[operation.offset : operation.offset + operation.length]
            np.subtract(part, was, out=differences[filled : filled + operation.length])
            filled += operation.length
    literal = b"".join(literals)
    codes, others = pack(differences)
    frames = [_shortest(part) for part in (table.tobytes(), codes, others, literal)]
    header = Header(
        hashlib.sha256(old).digest(), hashlib.sha256(new).digest(), len(old), len(new),
        len(literal), len(operations), (len(frames[0]), len(frames[1]), len(frames[2]), len(frames[3])),
    )  # fmt: skip
    return b"".join([header.pack(), *frames])


def worth_it(delta_bytes: int, full_bytes: int) -> bool:
    """Whether to publish it. `full_bytes`: of the whole file, compressed as it could be sent."""
    return delta_bytes < _PUBLISHED_BELOW * full_bytes


def compressed_bytes(content: bytes) -> int:
    """Size of the whole file when it is sent compressed as a web server would."""
    return len(zstandard.compress(content, 3))


def _shortest(content: bytes) -> bytes:
    if not content:
        return b""
    return min((_frame(content, level) for level in _LEVELS), key=len)


def _frame(content: bytes, level: int) -> bytes:
    size = len(content)
    usual = zstandard.ZstdCompressionParameters.from_level(level, source_size=size)
    parameters = zstandard.ZstdCompressionParameters.from_level(
        level, source_size=size, window_log=min(usual.window_log, WINDOW_LOG)
    )
    return zstandard.ZstdCompressor(compression_params=parameters).compress(content)
