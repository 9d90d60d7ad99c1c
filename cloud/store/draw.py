"""A number that is drawn for a sample once and for all, from its id alone. Pure.

Which samples are held out and which are taken first follows from it: the same ones on every
machine, in every data set, whatever else is in the store.
"""

import hashlib
from typing import Final
from uuid import UUID

DRAW_BITS: Final = 62
FOLDS: Final = 10_000
"""A held-out share is counted in these: draw modulo `FOLDS` below share x `FOLDS`."""


def draw_of(sample: UUID) -> int:
    """0 to 2^62 - 1, what both databases take for an integer; a device cannot make ids of equal
    draws without trying (SHA-256).
    """
    return int.from_bytes(hashlib.sha256(sample.bytes).digest()[:8], "big") >> (64 - DRAW_BITS)


def folds_of(share: float) -> int:
    """How many of the folds a share of samples has."""
    return round(share * FOLDS)
