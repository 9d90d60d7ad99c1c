"""Which arm a user or device is in: by a hash, so always the same one, on every worker. Pure."""

import hashlib
from collections.abc import Sequence

UNIT_CHARACTERS_MAX = 128
_SCALE = 2**64


def position(experiment: str, unit: str) -> float:
    """Uniform in [0, 1) over units; independent between experiments."""
    digest = hashlib.sha256(f"{experiment}\0{unit}".encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:8]) / _SCALE


def arm_at(shares: Sequence[float], at: float) -> int:
    """The index of the arm over whose stretch of [0, 1) `at` lies."""
    end = 0.0
    for index, share in enumerate(shares):
        end += share
        if at < end:
            return index
    return len(shares) - 1  # the shares' sum is 1 but for rounding
