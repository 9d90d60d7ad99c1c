"""What another escalation threshold would have cost and brought. Pure.

Telemetry has confidence in ten bins, so a threshold between two edges lies somewhere in a bin: the
share of samples below it is known within that bin's share, which is stated beside the estimate
(which takes a bin to be filled evenly). Which answers are wrong is known for two groups only, those
that were escalated and those that were audited; within each the error is taken to be in proportion
to 1 - confidence, as calibrated confidence has it. An escalated sample is taken to be answered by
the cloud, whose label is the measure of accuracy here.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from shared.fleet.telemetry import CONFIDENCE_BINS, LATENCY_EDGES_MS
from simulations.fleet.what_if.log import Total

EDGES: Final = np.arange(CONFIDENCE_BINS + 1) / CONFIDENCE_BINS
_MIDDLE: Final = (EDGES[:-1] + EDGES[1:]) / 2
_MIDDLE_MS: Final = np.array([*LATENCY_EDGES_MS, 2 * LATENCY_EDGES_MS[-1]]) / 2**0.25


@dataclass(frozen=True, slots=True)
class Figures:
    threshold: float | None
    """None: as it was."""
    escalated: float
    """Share of samples."""
    escalated_low: float
    escalated_high: float
    bytes_per_sample: float | None
    accuracy: float | None
    """Against the cloud's label; None: no audit was answered, so nobody knows."""
    edge_p95_ms: float
    final_ms: float
    """Mean until the final answer."""


def as_recorded(total: Total, bytes_per_message: float | None, cloud_ms: float) -> Figures:
    counts = total.counts
    share = counts["escalated"] / max(counts["samples"], 1)
    rates = _rates(total)
    accuracy = None if rates is None else 1.0 - rates[0] * (1.0 - share)
    return _figures(total, None, (share, share, share), accuracy, bytes_per_message, cloud_ms)


def at(total: Total, threshold: float, bytes_per_message: float | None, cloud_ms: float) -> Figures:
    """`threshold` in 0..1: samples below it are escalated."""
    shares = total.confidence / max(int(total.confidence.sum()), 1)
    # rounded: 0.9 is an edge, though (0.9 - 0.8) * 10 is less than 1
    below = np.clip(np.round((threshold - EDGES[:-1]) * CONFIDENCE_BINS, 9), 0.0, 1.0)
    low, high = shares[below >= 1.0].sum(), shares[below > 0.0].sum()
    estimate = float((shares * below).sum())
    accuracy = _accuracy(total, shares, 1.0 - below)
    spread = estimate, float(low), float(high)
    return _figures(total, threshold, spread, accuracy, bytes_per_message, cloud_ms)


def _figures(
    total: Total,
    threshold: float | None,
    escalated: tuple[float, float, float],
    accuracy: float | None,
    bytes_per_message: float | None,
    cloud_ms: float,
) -> Figures:
    share, low, high = escalated
    audited = total.counts["audited"] / max(total.counts["samples"], 1)
    seen = max(int(total.latency.sum()), 1)
    edge_ms = float((total.latency * _MIDDLE_MS).sum()) / seen
    return Figures(
        threshold=threshold,
        escalated=share,
        escalated_low=low,
        escalated_high=high,
        bytes_per_sample=None
        if bytes_per_message is None
        else (share + audited) * bytes_per_message,
        accuracy=accuracy,
        edge_p95_ms=_quantile_ms(total.latency, 0.95),
        final_ms=edge_ms + share * cloud_ms,
    )


def _quantile_ms(latency: np.ndarray, share: float) -> float:
    """The upper edge of the bin that holds it."""
    place = int(np.searchsorted(np.cumsum(latency), share * latency.sum()))
    return float(LATENCY_EDGES_MS[min(place, len(LATENCY_EDGES_MS) - 1)])


def _rates(total: Total) -> tuple[float, float] | None:
    """Shares of wrong answers among the samples that were kept, and among those escalated."""
    counts = total.counts
    if not counts["audit_answered"]:
        return None
    hard = counts["answered"] - counts["audit_answered"]
    wrong = counts["disagreed"] - counts["audit_disagreed"]
    return counts["audit_disagreed"] / counts["audit_answered"], wrong / hard if hard else 0.0


def _accuracy(total: Total, shares: np.ndarray, kept: np.ndarray) -> float | None:
    rates = _rates(total)
    if rates is None:
        return None
    escalated = total.counts["escalated"] / max(total.counts["samples"], 1)
    was_hard = np.clip((escalated - (np.cumsum(shares) - shares)) / np.maximum(shares, 1e-12), 0, 1)
    error = np.zeros(CONFIDENCE_BINS)
    for rate, weight in ((rates[0], 1.0 - was_hard), (rates[1], was_hard)):
        mass = float((shares * weight).sum())
        unsure = float((shares * weight * (1.0 - _MIDDLE)).sum()) / mass if mass else 0.0
        if unsure:
            error += weight * np.minimum(rate / unsure * (1.0 - _MIDDLE), 1.0)
    return 1.0 - float((shares * kept * error).sum())
