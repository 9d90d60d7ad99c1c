"""How far counts are from a reference: the population stability index, less what chance gives. Pure.

Bins are taken together until each holds a tenth of the reference, so that a small window has some
samples in each; there the index is the chi-squared statistic over its samples (Yurdakul 2018), of
which chance alone gives one less than there are bins.
"""

from collections.abc import Sequence

from edge.telemetry.sketching import Feature

_SHARE_MIN = 0.1


class Distance:
    """Of one feature."""

    def __init__(self, feature: Feature) -> None:
        counts = feature.sketch.counts
        self.feature = feature
        ends, sums = _groups(counts)
        self._ends = [feature.first + end for end in ends]
        self._shares = [share / max(sum(counts), 1) for share in sums]

    @property
    def says_something(self) -> bool:
        """Of one group there is no distance."""
        return len(self._shares) > 1

    def between(self, earlier: Sequence[int], later: Sequence[int], samples_min: int) -> float:
        """Of what was counted between two moments; 0 for fewer samples.

        Both are how many were counted in the cells before each one (`itertools.accumulate`).
        """
        first = self.feature.first
        below = before = later[first] - earlier[first]
        squares = 0.0
        for end, share in zip(self._ends, self._shares, strict=True):
            reached = later[end] - earlier[end]
            squares += (reached - below) ** 2 / share
            below = reached
        samples = below - before
        if samples < max(samples_min, 1):
            return 0.0
        return (squares / samples - samples - (len(self._ends) - 1)) / samples


def _groups(counts: Sequence[int]) -> tuple[list[int], list[int]]:
    """How many bins there are up to the end of each group, and the counts of each."""
    total = sum(counts)
    ends, sums, gathered = list[int](), list[int](), 0
    for end, count in enumerate(counts, 1):
        gathered += count
        if gathered > 0 and gathered >= total * _SHARE_MIN:
            ends.append(end)
            sums.append(gathered)
            gathered = 0
    if not sums:
        return [len(counts)], [1]
    ends[-1] = len(counts)
    sums[-1] += gathered
    return ends, sums
