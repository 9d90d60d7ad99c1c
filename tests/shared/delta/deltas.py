"""Deltas that no encoder would write."""

import hashlib

import numpy as np
import zstandard

from shared.delta.differences import pack
from shared.delta.header import LITERAL, Header

OLD = bytes(range(200)) * 3
NEW = b"head" + OLD[50:400] + b"tail"


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def frame(content: bytes) -> bytes:
    return zstandard.compress(content) if content else b""


def delta(
    operations: list[tuple[int, int]] | None = None,
    differences: bytes = bytes(350),
    literals: bytes = b"headtail",
    old: bytes = OLD,
    new: bytes = NEW,
    frames: dict[int, bytes] | None = None,
    header: dict[str, object] | None = None,
) -> bytes:
    """From OLD to NEW, but for what is named: its operations, a whole frame, a header's member."""
    table = [(LITERAL, 4), (50, 350), (LITERAL, 4)] if operations is None else operations
    codes, others = pack(np.frombuffer(differences, np.uint8))
    packed = [frame(np.array(table, "<u8").tobytes()), frame(codes), frame(others), frame(literals)]
    for number, content in (frames or {}).items():
        packed[number] = content
    stated = {
        "old_sha256": hashlib.sha256(old).digest(), "new_sha256": hashlib.sha256(new).digest(),
        "old_bytes": len(old), "new_bytes": len(new), "literal_bytes": len(literals),
        "operations": len(table), "packed": tuple(len(one) for one in packed),
    } | (header or {})  # fmt: skip
    return b"".join([Header(**stated).pack(), *packed])  # type: ignore[arg-type]
