"""The delta's fixed beginning: what it says of itself, checked before anything is allocated."""

import struct
from dataclasses import dataclass
from typing import Final

from shared.errors import Malformed, TooLarge

MAGIC: Final = b"HYDELTA"
VERSION: Final = 1
LITERAL: Final = 2**64 - 1  # in the place of an offset in the old file
OPERATION_BYTES: Final = 16
OPERATIONS_MAX: Final = 1 << 17  # 2 MiB of them; an encoder coalesces neighbours
WINDOW_LOG: Final = 23  # 8 MiB: what decompressing may take beside the two files

_FIELDS = struct.Struct("<7sB32s32s8Q")
HEADER_BYTES: Final = _FIELDS.size


@dataclass(frozen=True, slots=True)
class Header:
    """Hashes are raw; sizes are in bytes."""

    old_sha256: bytes
    new_sha256: bytes
    old_bytes: int
    new_bytes: int
    literal_bytes: int
    operations: int
    packed: tuple[int, int, int, int]  # compressed sizes of operations, codes, others, literals

    @property
    def difference_bytes(self) -> int:
        return self.new_bytes - self.literal_bytes

    def pack(self) -> bytes:
        return _FIELDS.pack(
            MAGIC, VERSION, self.old_sha256, self.new_sha256, self.old_bytes, self.new_bytes,
            self.literal_bytes, self.operations, *self.packed,
        )  # fmt: skip


def parse_header(delta: bytes, bytes_max: int) -> Header:
    """Raises `Malformed`, or `TooLarge` when the new file would have more than `bytes_max`."""
    if len(delta) < HEADER_BYTES or delta[: len(MAGIC)] != MAGIC:
        raise Malformed("not a delta: fetch it again, or fetch the whole file")
    _, version, old, new, old_bytes, new_bytes, literal_bytes, operations, a, b, c, d = (
        _FIELDS.unpack_from(delta)
    )
    if version != VERSION:
        raise Malformed(f"a delta of format {version}, this program reads {VERSION}: update it")
    header = Header(old, new, old_bytes, new_bytes, literal_bytes, operations, (a, b, c, d))
    if header.new_bytes > bytes_max:
        raise TooLarge(f"the delta makes {header.new_bytes} bytes; at most {bytes_max} here")
    if header.operations > OPERATIONS_MAX:
        raise TooLarge(f"the delta has {header.operations} operations; at most {OPERATIONS_MAX}")
    stated = HEADER_BYTES + sum(header.packed)
    if stated != len(delta):
        raise Malformed(f"the delta has {len(delta)} bytes, by its header {stated}: fetch it again")
    if header.literal_bytes > header.new_bytes:
        raise Malformed("the delta has more literals than the new file has bytes: fetch it again")
    return header
