"""Write a delta (`shared/delta` describes the format).

Takes CPU time: at level 19 about 0.5 s a megabyte that changed; never on an event loop.
"""

import hashlib

import numpy as np
import zstandard

from cloud.registry.deltas.alignment import align
from shared.delta.header import LITERAL, WINDOW_LOG, Header

LEVEL = 19  # a delta is packed once and fetched by a fleet
_PUBLISHED_BELOW = 0.6  # of the whole file: below that a device's work for it pays off


def encode(old: bytes, new: bytes, level: int = LEVEL) -> bytes:
    """What makes `new` of `old`; any bytes. `level`: zstandard's, 1 to 19."""
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
    packed = [_pack(part, level) for part in (table.tobytes(), differences.tobytes(), literal)]
    header = Header(
        hashlib.sha256(old).digest(), hashlib.sha256(new).digest(), len(old), len(new),
        len(literal), len(operations), *map(len, packed),
    )  # fmt: skip
    return b"".join([header.pack(), *packed])


def worth_it(delta_bytes: int, full_bytes: int) -> bool:
    """Whether to publish it. `full_bytes`: of the whole file, compressed as it could be sent."""
    return delta_bytes < _PUBLISHED_BELOW * full_bytes


def compressed_bytes(content: bytes) -> int:
    """Size of the whole file when it is sent compressed as a web server would."""
    return len(zstandard.compress(content, 3))


def _pack(content: bytes, level: int) -> bytes:
    if not content:
        return b""
    parameters = zstandard.ZstdCompressionParameters.from_level(
        level, source_size=len(content), write_content_size=True
    )
    window = min(parameters.window_log, WINDOW_LOG)
    parameters = zstandard.ZstdCompressionParameters.from_level(
        level, source_size=len(content), window_log=window
    )
    return zstandard.ZstdCompressor(compression_params=parameters).compress(content)
