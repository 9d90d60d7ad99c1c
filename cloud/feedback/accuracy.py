"""How many answers of the edge, or of the cloud, are right, from what people labelled. Pure.

Which samples came back depends on how sure the edge was, so their plain average says nothing. Each
stands for 1 / share of its kind: the estimate is Hajek's (1971) ratio of weighted sums, by strata of
equal share, so that people may label one kind more eagerly than another. The interval joins Wilson
intervals of the strata by Zou and Donner's (2008) recovery of variances, which holds with few
samples and none wrong, where the usual linear one has no width at all.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_Z: Final = 1.959963984540054
"""Of a two-sided 95% interval."""


@dataclass(frozen=True, slots=True)
class Stratum:
    """Samples that were sent with the same probability."""

    share: float
    sent: int
    """Samples in the store."""
    labelled: int
    """Of these, by people who agree."""
    right: int
    """Of the labelled ones."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """`low` and `high`: the 95% interval."""

    estimate: float
    low: float
    high: float
    labelled: int
    audits: int
    """Of the labelled ones those with a share below 1."""
    sent: int


def accuracy(strata: Sequence[Stratum]) -> Estimate | None:
    """None while nobody labelled anything. A stratum without labels may be all right or all wrong."""
    labelled = sum(one.labelled for one in strata)
    weight = sum(one.sent / one.share for one in strata)
    if not labelled or not weight:
        return None
    pooled = _pooled(strata)
    estimate, below, above = 0.0, 0.0, 0.0
    for one in strata:
        part = one.sent / one.share / weight
        found = one.right / one.labelled if one.labelled else pooled
        low, high = _wilson(one.right, one.labelled)
        estimate += part * found
        below += (part * (found - low)) ** 2
        above += (part * (high - found)) ** 2
    # the weights are counts of what was sent by chance, so they vary, too
    of_weights = sum(
        one.sent * ((_found(one, pooled) - estimate) / one.share / weight) ** 2 for one in strata
    )
    low = max(0.0, estimate - math.sqrt(below + _Z**2 * of_weights))
    high = min(1.0, estimate + math.sqrt(above + _Z**2 * of_weights))
    audits = sum(one.labelled for one in strata if one.share < 1)
    sent = sum(one.sent for one in strata)
    return Estimate(min(1.0, estimate), low, high, labelled, audits, sent)


def _pooled(strata: Sequence[Stratum]) -> float:
    known = [one for one in strata if one.labelled]
    weights = [one.sent / one.share for one in known]
    rights = [one.right / one.labelled for one in known]
    return sum(w * r for w, r in zip(weights, rights, strict=True)) / sum(weights)


def _found(one: Stratum, otherwise: float) -> float:
    return one.right / one.labelled if one.labelled else otherwise


def _wilson(right: int, count: int) -> tuple[float, float]:
    """Wilson 1927; (0, 1) of nothing."""
    if not count:
        return 0.0, 1.0
    share = right / count
    middle = (share + _Z**2 / (2 * count)) / (1 + _Z**2 / count)
    half = _Z * math.sqrt(share * (1 - share) / count + _Z**2 / (4 * count**2))
    half /= 1 + _Z**2 / count
    return max(0.0, middle - half), min(1.0, middle + half)
