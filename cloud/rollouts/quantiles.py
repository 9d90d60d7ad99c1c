"""Criteria about whole histograms: the 95th percentile of latency, the shift of confidence. Pure."""

from collections.abc import Sequence
from math import log, pi, sqrt
from typing import Final

from cloud.rollouts import sequential
from cloud.rollouts.arms import Histogram
from cloud.rollouts.criteria import Criterion
from cloud.rollouts.documents import CriterionView
from shared.fleet.telemetry import LATENCY_EDGES_MS

SAMPLES_MIN: Final = 60
"""Three of which are over the 95th percentile."""
HISTORY_MIN: Final = 200
"""What the devices' own histories must be worth in samples; with less the pool says more."""
_Q: Final = 0.95


def p95(one: Criterion, latency: Histogram, alpha: float) -> CriterionView:
    """Each end is an edge of a bin (a factor of 1.41 apart): where the share of samples that are at
    most so slow is surely over, or surely under, 95 %, at every look.
    """
    total = sum(latency.cohort)
    if not total:
        return CriterionView(text=one.text, verdict="no data", words="no latencies yet")
    low, high = _bounds(latency.cohort, float(total), alpha)
    here = _quantile(latency.cohort)
    expected, weight = _expected(latency)
    control = control_low = control_high = None
    if expected is not None:
        control = _quantile(expected)
        control_low, control_high = _bounds(expected, weight, alpha)
    bound, sure = one.bound(control), False
    if bound is None:
        verdict = "no data"
    else:
        sure = low > (one.bound(control_high) or 0.0) if one.relative else low >= one.number
        # two edges that are next to each other are no difference: values within a bin look alike
        fine = here <= bound * 1.0001 or low <= bound
        verdict = "violated" if sure else "holds" if fine and total >= SAMPLES_MIN else "open"
    words = f"p95 {here:.3g} ms" + ("" if control is None else f", expected {control:.3g} ms")
    return CriterionView.model_validate(
        {
            "text": one.text, "verdict": verdict, "cohort": here, "cohort_low": low,
            "cohort_high": high, "control": control, "control_low": control_low,
            "control_high": control_high, "samples": total, "control_samples": int(weight),
            "words": words if bound is not None else words + "; no control to compare with",
        }
    )  # fmt: skip


def shift(one: Criterion, confidence: Histogram, alpha: float) -> CriterionView:
    """Total variation distance: the largest difference that any set of cells can show. So the bound
    is a union over all sets of cells of a bound that holds at every look (as Weissman et al. 2003).
    """
    total = sum(confidence.cohort)
    expected, weight = _expected(confidence)
    if not total or expected is None:
        words = "no samples yet" if not total else "no control to compare with"
        return CriterionView(text=one.text, verdict="no data", samples=total, words=words)
    size = max(len(confidence.cohort), len(expected))
    here = [*confidence.cohort, *[0] * (size - len(confidence.cohort))]
    there = [*expected, *[0.0] * (size - len(expected))]
    mass = sum(there)
    pairs = [(a / total, b / mass) for a, b in zip(here, there, strict=True) if a or b]
    distance = sum(abs(a - b) for a, b in pairs) / 2
    scale = 1 / total + 1 / weight
    noise = sum(sqrt(2 * scale * (a + b) / 2 * (1 - (a + b) / 2) / pi) for a, b in pairs) / 2
    strays = _strays(float(total), len(pairs), alpha) + _strays(weight, len(pairs), alpha)
    low = max(0.0, distance - strays)
    enough = total >= SAMPLES_MIN and noise <= max(one.number, 0.02)
    fine = max(0.0, distance - noise) <= one.number
    verdict = "violated" if low > one.number else "holds" if fine and enough else "open"
    return CriterionView.model_validate(
        {
            "text": one.text, "verdict": verdict, "cohort": distance, "cohort_low": low,
            "cohort_high": min(1.0, distance + strays), "samples": total,
            "control_samples": int(weight),
            "words": f"distance {distance:.3f}, of which {noise:.3f} is to be expected by chance",
        }
    )  # fmt: skip


def _expected(one: Histogram) -> tuple[Sequence[float] | None, float]:
    """What the cohort's devices would have shown, and how many samples that knowledge is worth."""
    total = sum(one.cohort)
    others = total - one.matched
    pool = sum(one.control)
    worth = one.matched * one.matched / max(one.error, 1e-9)
    if one.matched > 0 and ((others <= total // 2 and worth >= HISTORY_MIN) or pool < worth):
        return one.expected, max(1.0, worth)
    if pool >= SAMPLES_MIN:
        return one.control, float(pool)
    return None, 0.0


def _quantile(counts: Sequence[float]) -> float:
    needed, seen = _Q * sum(counts), 0.0
    for edge, count in zip(LATENCY_EDGES_MS, counts, strict=False):
        seen += count
        if seen >= needed - 1e-9:
            return edge
    return LATENCY_EDGES_MS[-1] * sqrt(2)


def _bounds(counts: Sequence[float], samples: float, alpha: float) -> tuple[float, float]:
    """Edges between which the true percentile surely lies."""
    low, high = 0.0, LATENCY_EDGES_MS[-1] * sqrt(2)
    mass, seen, trials = sum(counts), 0.0, max(1, int(samples))
    for edge, count in zip(LATENCY_EDGES_MS, counts, strict=False):
        seen += count
        under = min(trials, round(seen / mass * trials))
        share = sequential.rate(under, trials, alpha)
        if share.high < _Q:
            low = edge
        if share.low > _Q:
            return low, edge
    return low, high


def _strays(samples: float, cells: int, alpha: float) -> float:
    level = alpha / 2 / 2.0 ** min(cells, 900)
    return sequential.radius(samples / 4, level) / samples if log(level) else 0.0
