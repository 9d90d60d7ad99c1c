"""Counts between edges: how a feature is spread, mergeable by addition. Pure.

`Manifest.reference` has one `Sketch` a feature; devices count in its bins and send the counts.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from shared.bundle.manifest import Sketch


def reference_hash(reference: Iterable[Sketch]) -> str:
    """16 hex digits that name the bins: features and edges, not the counts."""
    digest = hashlib.sha256()
    for sketch in sorted(reference, key=lambda one: one.feature):
        digest.update(f"{sketch.feature}:{','.join(map(repr, sketch.edges))};".encode())
    return digest.hexdigest()[:16]


def bin_of(edges: Sequence[float], value: float) -> int:
    """0..len(edges); a value on an edge is above it, as `numpy.searchsorted(side="right")` has it."""
    return bisect_right(edges, value)
