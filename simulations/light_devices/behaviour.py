"""How a version behaves on a device, and counts drawn from that. Pure but for the generator given."""

from bisect import bisect_left
from dataclasses import dataclass
from typing import Literal

import numpy as np

from shared.fleet.telemetry import CONFIDENCE_BINS, LATENCY_BINS, LATENCY_EDGES_MS

CLASSES = 10


@dataclass(frozen=True, slots=True)
class Behaviour:
    """Of one version. Accuracy is by the cloud's labels."""

    accuracy: float = 0.95
    escalated: float = 0.15
    """Share of samples."""
    accuracy_escalated: float = 0.75
    latency_ms: float = 1.0
    """Median; log-normal with a tenth of it either way."""
    fault: Literal["", "load", "golden", "slow"] = ""
    """load: it does not start; golden: its golden samples fail; slow: it is over the latency bound."""

    @property
    def accuracy_accepted(self) -> float:
        return (self.accuracy - self.escalated * self.accuracy_escalated) / (1 - self.escalated)


@dataclass(slots=True)
class Counts:
    """Cumulative, of one tally."""

    samples: int = 0
    escalated: int = 0
    audited: int = 0
    answered: int = 0
    disagreed: int = 0
    audit_answered: int = 0
    audit_disagreed: int = 0

    def draw(
        self, behaviour: Behaviour, samples: int, audit_share: float, rng: np.random.Generator
    ) -> None:
        escalated = int(rng.binomial(samples, behaviour.escalated))
        audited = int(rng.binomial(samples - escalated, audit_share))
        audit_wrong = int(rng.binomial(audited, 1 - behaviour.accuracy_accepted))
        wrong = int(rng.binomial(escalated, 1 - behaviour.accuracy_escalated))
        self.samples += samples
        self.escalated += escalated
        self.audited += audited
        self.answered += escalated + audited
        self.disagreed += wrong + audit_wrong
        self.audit_answered += audited
        self.audit_disagreed += audit_wrong


def latency_histogram(median_ms: float, samples: int) -> tuple[int, ...]:
    """Nine tenths at the median's bin, a tenth in the next."""
    bins = [0] * LATENCY_BINS
    at = min(bisect_left(LATENCY_EDGES_MS, median_ms), LATENCY_BINS - 1)
    bins[at] = samples - samples // 10
    bins[min(at + 1, LATENCY_BINS - 1)] += samples // 10
    return tuple(bins)


def confidence_table(samples: int, escalated: int) -> tuple[tuple[int, ...], ...]:
    """Escalated samples lie in the middle bin, the others in the last, over all classes evenly."""
    rows = []
    for index in range(CLASSES):
        row = [0] * CONFIDENCE_BINS
        unsure = escalated * (index + 1) // CLASSES - escalated * index // CLASSES
        total = samples * (index + 1) // CLASSES - samples * index // CLASSES
        row[CONFIDENCE_BINS // 2] = min(unsure, total)
        row[-1] = total - row[CONFIDENCE_BINS // 2]
        rows.append(tuple(row))
    return tuple(rows)
