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
        self._group_of, shares = _groups(counts)
        self._shares = [share / max(sum(counts), 1) for share in shares]

    @property
    def says_something(self) -> bool:
        """Of one group there is no distance."""
        return len(self._shares) > 1

    def between(self, earlier: Sequence[int], later: Sequence[int], samples_min: int) -> float:
        """Of what the cells of a sketching gained between two moments; 0 for fewer samples."""
        observed = [0] * len(self._shares)
        gained = zip(self.feature.of(earlier), self.feature.of(later), strict=True)
        for group, (before, after) in zip(self._group_of, gained, strict=True):
            observed[group] += after - before
        samples = sum(observed)
        if samples < samples_min:
            return 0.0
        squares = sum(n * n / share for n, share in zip(observed, self._shares, strict=True))
        return (squares / samples - samples - (len(observed) - 1)) / samples


def _groups(counts: Sequence[int]) -> tuple[list[int], list[int]]:
    """The group of each bin, and the counts of each group."""
    total = sum(counts)
    group_of, sums, gathered = list[int](), list[int](), 0
    for count in counts:
        group_of.append(len(sums))
        gathered += count
        if gathered > 0 and gathered >= total * _SHARE_MIN:
            sums.append(gathered)
            gathered = 0
    if not sums:
        return [0] * len(counts), [1]
    sums[-1] += gathered
    return [min(group, len(sums) - 1) for group in group_of], sums
