"""Apply a delta. Hostile until the hash of what it makes has been checked.

Takes CPU time: some 10 ms a megabyte on a server's core; never on an event loop.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
import zstandard
from numpy.typing import NDArray

from shared.delta.differences import Differences
from shared.delta.header import (
    HEADER_BYTES,
    LITERAL,
    OPERATION_BYTES,
    WINDOW_LOG,
    Header,
    parse_header,
)
from shared.errors import Malformed, NotTrusted

_DAMAGED = "fetch it again, or fetch the whole file"


@dataclass(frozen=True, slots=True)
class Operation:
    """`offset` in the old file, or None for literal bytes; `length` is in bytes."""

    offset: int | None
    length: int


def apply(old: bytes, delta: bytes, *, bytes_max: int, sha256: str) -> bytes:
    """The new file, whose SHA-256 (hex) is `sha256`. Beside the three files it takes the
    memory of another new one, and 40 MiB at most.

    Raises `Malformed` (damaged), `TooLarge` (it would have more than `bytes_max`), `NotTrusted`
    (it is for another old file, or makes another new one).
    """
    header = parse_header(delta, bytes_max)
    if header.new_sha256.hex() != sha256:
        raise NotTrusted(
            f"the delta makes {header.new_sha256.hex()[:16]}..., not {sha256[:16]}...: {_DAMAGED}"
        )
    if header.old_bytes != len(old) or hashlib.sha256(old).digest() != header.old_sha256:
        raise NotTrusted(
            f"the delta is for {header.old_sha256.hex()[:16]}..., which is not the file here; "
            "fetch the whole file"
        )
    new = _rebuild(np.frombuffer(old, np.uint8), delta, header)
    if hashlib.sha256(new.data).digest() != header.new_sha256:
        raise NotTrusted(f"what the delta makes has not the hash that it should have: {_DAMAGED}")
    return new.tobytes()


def _rebuild(old: NDArray[np.uint8], delta: bytes, header: Header) -> NDArray[np.uint8]:
    operations, codes, others, literals = _frames(delta, header)
    differences = Differences(codes.fill, others.fill, header.difference_bytes)
    new = np.empty(header.new_bytes, np.uint8)
    at = 0
    for operation in _operations(operations, header):
        part = new[at : at + operation.length]
        at += operation.length
        if operation.offset is None:
            literals.fill(part)
        else:
            differences.add(part, old[operation.offset : operation.offset + operation.length])
    for frame in (codes, others, literals):
        frame.end()
    return new


def _operations(frame: "_Frame", header: Header) -> list[Operation]:
    """Checked: each within the old file, and together they make exactly the new one."""
    raw = np.empty(header.operations * OPERATION_BYTES, np.uint8)
    frame.fill(raw)
    frame.end()
    pairs: list[list[int]] = raw.view("<u8").reshape(-1, 2).tolist()
    found = [Operation(None if offset == LITERAL else offset, n) for offset, n in pairs]
    copied = sum(one.length for one in found if one.offset is not None)
    literal = sum(one.length for one in found if one.offset is None)
    if (copied, literal) != (header.difference_bytes, header.literal_bytes):
        raise Malformed(f"the delta's operations do not make the size that it states: {_DAMAGED}")
    if any(one.offset is not None and one.offset + one.length > header.old_bytes for one in found):
        raise Malformed(f"the delta copies from beyond the old file's end: {_DAMAGED}")
    return found


def _frames(delta: bytes, header: Header) -> "list[_Frame]":
    view, at, frames = memoryview(delta), HEADER_BYTES, []
    for size in header.packed:
        frames.append(_Frame(view[at : at + size]))
        at += size
    return frames


class _Frame:
    """One zstandard frame, unpacked into arrays of known sizes, whatever size it states itself."""

    def __init__(self, packed: memoryview) -> None:
        engine = zstandard.ZstdDecompressor(max_window_size=1 << WINDOW_LOG)
        self._reader = engine.stream_reader(packed)

    def fill(self, part: NDArray[np.uint8]) -> None:
        view = part.data
        try:
            while view:
                if not (count := self._reader.readinto(view)):
                    raise Malformed(f"the delta is cut short: {_DAMAGED}")
                view = view[count:]
        except zstandard.ZstdError as error:
            raise Malformed(f"the delta is damaged: {error}: {_DAMAGED}") from error

    def end(self) -> None:
        try:
            if self._reader.read(1):
                raise Malformed(f"the delta holds more than its operations use: {_DAMAGED}")
        except zstandard.ZstdError as error:
            raise Malformed(f"the delta is damaged: {error}: {_DAMAGED}") from error
