"""What a device counted last, and what of it was believed. Compact: one for each device."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

COUNTS = 5
SAMPLES, ESCALATED, AUDITED, DISAGREED, FAILED = range(COUNTS)
"""Inferences, those escalated, audits that the cloud answered, those with another label, failures."""
BOOTS_KEPT = 4
Counts = tuple[int, ...]
NONE: Counts = (0,) * COUNTS


def added(first: Counts, second: Sequence[int]) -> Counts:
    return tuple(a + b for a, b in zip(first, second, strict=True))


@dataclass(slots=True)
class Meter:
    boot: str
    sequence: int
    started: int
    version: str
    counts: Counts
    """Cumulative, as last reported in this tally."""
    at: float
    """When they were taken, by the region's clock."""
    latency: "array[int] | None" = None
    """Cumulative histogram; None: this device counts in totals only (`arms.PANEL_MAX`)."""
    confidence: "array[int] | None" = None
    """Cumulative, row after row."""
    boots: tuple[str, ...] = ()
    """Lives that are over, the newest last: what still comes from them is late."""
    history: Counts = NONE
    """On the version before: all that is known, over this rollout's begin too."""
    since: Counts = NONE
    """Of history, what came since the first live stage opened: how a device that is not moved
    changes meanwhile."""
    cohort: Counts = NONE
    """What was counted for the new version."""
    per_s: float = 0.0
    """Inferences a second on the version before, over the uptime that it told."""
    old_latency: "array[int] | None" = None
    """Of its last tally on the version before."""
    old_confidence: "array[int] | None" = None
    shadow: list[int] | None = None
    """Cumulative counts of its shadow, as last reported; the first is `started`."""
    shadow_at: float = 0.0
    """When they were taken, by the region's clock."""
    straddles: bool = False
    """The next report of its tally covers time before it moved."""
    distrusted: bool = False
    """It reported more than any device can do, and was named for it."""
    shadow_counted: tuple[int, int] = (0, 0)
    """Samples and answered pairs of its shadow that count."""

    def to_list(self) -> list[Any]:
        return [
            self.boot, self.sequence, self.started, self.version, self.counts, self.at,
            _listed(self.latency), _listed(self.confidence), self.boots, self.history, self.since,
            self.cohort, self.per_s, _listed(self.old_latency), _listed(self.old_confidence),
            self.shadow, self.shadow_at, self.straddles, self.distrusted, self.shadow_counted,
        ]  # fmt: skip

    @classmethod
    def from_list(cls, fields: Sequence[Any]) -> "Meter":
        values = list(fields)
        for place in (4, 8, 9, 10, 11, 19):
            values[place] = tuple(values[place])
        for place in (6, 7, 13, 14):
            values[place] = None if values[place] is None else packed(values[place])
        return cls(*values)


def packed(values: Sequence[int]) -> "array[int]":
    """In as few bytes as its largest needs."""
    most = max(values, default=0)
    return array("H" if most < 1 << 16 else "I" if most < 1 << 32 else "Q", values)


def _listed(values: "array[int] | None") -> list[int] | None:
    return None if values is None else values.tolist()
