"""Which bins of a reference are so rare that an input in one of them is like nothing known. Pure."""

from collections.abc import Iterable, Sequence

from edge.telemetry.sketching import Feature

RARE_MAX = 0.002
"""Share of an outermost bin; a reference of fewer than 500 samples cannot show that one is so rare."""
UNCOMMON_MAX = 0.0075
"""Of the outermost bins together, while inputs are novel anyway."""


def rare_cells(features: Iterable[Feature]) -> frozenset[int]:
    """Cells of a sketching: of each feature of the input, either outermost one, if it is rare."""
    return _outer_cells(features, RARE_MAX, bins_max=1)


def uncommon_cells(features: Iterable[Feature]) -> frozenset[int]:
    """The rare ones, and those beside them."""
    return _outer_cells(features, UNCOMMON_MAX, bins_max=2)


def _outer_cells(features: Iterable[Feature], share_max: float, bins_max: int) -> frozenset[int]:
    found = set[int]()
    for feature in features:
        counts = feature.sketch.counts
        last = feature.first + len(counts) - 1
        found.update(feature.first + at for at in range(_run(counts, share_max, bins_max)))
        found.update(last - at for at in range(_run(counts[::-1], share_max, bins_max)))
    return frozenset(found)


def _run(counts: Sequence[int], share_max: float, bins_max: int) -> int:
    """How many of the first bins hold at most `share_max` together, by the rule of succession."""
    total, reached, run = sum(counts), 0, 0
    for count in counts[:bins_max]:
        reached += count
        if (reached + 1) / (total + 1) > share_max:
            break
        run += 1
    return run
