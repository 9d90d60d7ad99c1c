"""The evidence of a rollout: sums over devices that change in O(1) with each report. Pure.

Devices differ: one escalates 2 % of its samples, another 30 %. So the cohort is not set against a
pool of other devices where that can be helped: each device's counts on the new version are set
against what it did on the one before (matched), moved by how devices that stayed changed meanwhile
(drift: difference in differences). Devices without a history are set against the pool, with the
variance between devices that was measured there. Whatever happens twice counts once (collector.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from cloud.rollouts.meter import (
    AUDITED,
    COUNTS,
    DISAGREED,
    ESCALATED,
    FAILED,
    SAMPLES,
    Counts,
    Meter,
    added,
)
from shared.fleet.telemetry import LATENCY_BINS

PANEL_MAX: Final = 2000
"""Devices of each stage whose histograms count; everybody's totals do. More would say no more."""
MATCH_MIN: Final = 30
"""Trials on the version before, from which on a device is set against itself."""
SHARE_FLOOR: Final = 2000
SHARE_TIMES: Final = 5
"""A device counts at most 2,000 samples, or five times as many as the others on average: one that
floods, or one camera at a motorway among quiet ones, does not speak for all of them."""
SHADOW_FLOOR: Final = 200
"""The same in shadow, where 1,300 pairs may clear a version."""


@dataclass(slots=True)
class Spread:
    """Mean and variance over devices of a value that each of them has with an own error."""

    devices: int = 0
    total: float = 0.0
    squares: float = 0.0
    within: float = 0.0

    def add(self, value: float, variance: float, sign: int = 1) -> None:
        self.devices += sign
        self.total += sign * value
        self.squares += sign * value * value
        self.within += sign * variance

    @property
    def mean(self) -> float:
        return self.total / self.devices if self.devices else 0.0

    @property
    def between(self) -> float:
        """Variance of the true values; 0 where too few devices tell."""
        if self.devices < 3:
            return 0.0
        mean = self.mean
        over_all = (self.squares - self.devices * mean * mean) / (self.devices - 1)
        return max(0.0, over_all - self.within / self.devices)

    @property
    def mean_variance(self) -> float:
        """Of `mean` as an estimate."""
        if not self.devices:
            return 0.0
        return (self.between + max(0.0, self.within) / self.devices) / self.devices


@dataclass(slots=True)
class Level:
    """A rate of the cohort beside what is expected of the same devices."""

    trials: int
    """Index of the count of trials in `Counts`."""
    hits: int
    matched: int = 0
    matched_hits: int = 0
    expected: float = 0.0
    """Hits, of the matched trials, at each device's own rate before."""
    error: float = 0.0
    """Variance of `expected`: those rates are estimates."""
    squares: float = 0.0
    """Sum of each matched device's trials, squared: drift of a device is in all of them."""
    others: int = 0
    others_hits: int = 0
    others_squares: float = 0.0
    spread: Spread = field(default_factory=Spread)
    drift: Spread = field(default_factory=Spread)

    def of(self, counts: Sequence[int]) -> tuple[int, int]:
        return counts[self.trials], counts[self.hits]

    def moved(self, history: Counts, before: Counts, after: Counts) -> None:
        """A device of the cohort counted `after`, had counted `before` on the new version."""
        old, old_hits = self.of(before)
        new, new_hits = self.of(after)
        had, had_hits = self.of(history)
        squares = float(new * new - old * old)
        if had >= MATCH_MIN:
            self.matched += new - old
            self.matched_hits += new_hits - old_hits
            self.expected += (new - old) * had_hits / had
            self.error += squares * _variance(had_hits, had)
            self.squares += squares
        else:
            self.others += new - old
            self.others_hits += new_hits - old_hits
            self.others_squares += squares

    def stayed(self, meter: Meter, sign: int) -> None:
        """Take a control device's rate and change in (+1), or what they were out (-1)."""
        had, had_hits = self.of(meter.history)
        since, since_hits = self.of(meter.since)
        if had >= MATCH_MIN:
            self.spread.add(had_hits / had, _variance(had_hits, had), sign)
        before, before_hits = had - since, had_hits - since_hits
        if before >= MATCH_MIN and since >= MATCH_MIN:
            change = since_hits / since - before_hits / before
            variance = _variance(since_hits, since) + _variance(before_hits, before)
            self.drift.add(change, variance, sign)


@dataclass(slots=True)
class Histogram:
    """One of the cohort's, beside what is expected of the same devices."""

    cohort: list[int] = field(default_factory=list)
    expected: list[float] = field(default_factory=list)
    """Of the matched devices, in samples of the cohort."""
    matched: int = 0
    error: float = 0.0
    """Sum of each matched device's samples squared over those of its history."""
    control: list[int] = field(default_factory=list)

    def moved(self, change: Sequence[int], total: int, history: Sequence[int] | None) -> None:
        """A device of the cohort counted `change`, and has `total` on the new version now."""
        added = sum(change)
        _add(self.cohort, change)
        had = sum(history) if history is not None else 0
        if history is None or had < MATCH_MIN or not added:
            return
        self.matched += added
        self.error += (total * total - (total - added) * (total - added)) / had
        weight = added / had
        if len(self.expected) < len(history):
            self.expected += [0.0] * (len(history) - len(self.expected))
        for i, count in enumerate(history):
            if count:
                self.expected[i] += weight * count

    def stayed(self, change: Sequence[int]) -> None:
        _add(self.control, change)


@dataclass(slots=True)
class ShadowSums:
    samples: int = 0
    agreed: int = 0
    failed: int = 0
    both_right: int = 0
    only_candidate_right: int = 0
    only_active_right: int = 0
    both_wrong: int = 0

    @property
    def pairs(self) -> int:
        return (
            self.both_right + self.only_candidate_right + self.only_active_right + self.both_wrong
        )


@dataclass(slots=True)
class Evidence:
    cohort: list[int] = field(default_factory=lambda: [0] * COUNTS)
    cohort_devices: int = 0
    control: list[int] = field(default_factory=lambda: [0] * COUNTS)
    control_devices: int = 0
    escalation: Level = field(default_factory=lambda: Level(SAMPLES, ESCALATED))
    disagreement: Level = field(default_factory=lambda: Level(AUDITED, DISAGREED))
    failures: Level = field(default_factory=lambda: Level(SAMPLES, FAILED))
    latency: Histogram = field(
        default_factory=lambda: Histogram([0] * LATENCY_BINS, [0.0] * LATENCY_BINS)
    )
    confidence: Histogram = field(default_factory=Histogram)
    shadow: ShadowSums = field(default_factory=ShadowSums)
    shadow_devices: int = 0
    """Whose samples count in `shadow`."""
    golden: int = 0
    """Devices whose golden samples failed."""
    changed: bool = True
    """Since it was judged last."""

    @property
    def levels(self) -> tuple[Level, Level, Level]:
        return self.escalation, self.disagreement, self.failures

    def allowed(self, meter: Meter, wanted: int, *, cohort: bool, alone: bool) -> int:
        """How many more samples of this device may count; `alone`: there are no others to come."""
        own = (meter.cohort if cohort else meter.history)[SAMPLES]
        total, devices = (
            (self.cohort[SAMPLES], self.cohort_devices)
            if cohort
            else (self.control[SAMPLES], self.control_devices)
        )
        return _room(own, total, devices, wanted, SHARE_FLOOR, alone=alone)

    def count_shadow(self, meter: Meter, change: Sequence[int], *, alone: bool) -> None:
        """As much of it as one device may say; never more pairs than samples that count."""
        sums, wanted = self.shadow, change[0]
        own, own_pairs = meter.shadow_counted
        most = _room(
            own, sums.samples, self.shadow_devices, max(wanted, 1), SHADOW_FLOOR, alone=alone
        )
        share = most / max(wanted, 1)  # answers may come after the samples that they are to
        counted = [int(count * share) for count in change[:3]]
        pairs = sum(change[3:])
        fit = own + counted[0] - own_pairs
        share = min(share, fit / pairs) if pairs else share
        counted += [int(count * share) for count in change[3:]]
        self.shadow_devices += not own and counted[0] > 0
        meter.shadow_counted = own + counted[0], own_pairs + sum(counted[3:])
        for name, more in zip(ShadowSums.__slots__, counted, strict=True):
            setattr(sums, name, getattr(sums, name) + more)
        self.changed = True

    def count_cohort(self, meter: Meter, change: Sequence[int]) -> None:
        before = meter.cohort
        after = added(before, change)
        for level in self.levels:
            level.moved(meter.history, before, after)
        self.cohort_devices += not any(before) and any(after)
        _add(self.cohort, change)
        meter.cohort = after
        self.changed = True

    def count_control(self, meter: Meter, change: Sequence[int], *, live: bool) -> None:
        for level in self.levels:
            level.stayed(meter, -1)
        self.control_devices += not any(meter.history) and any(change)
        meter.history = added(meter.history, change)
        if live:
            meter.since = added(meter.since, change)
        for level in self.levels:
            level.stayed(meter, 1)
        _add(self.control, change)
        self.changed = True


def _room(own: int, total: int, devices: int, wanted: int, floor: int, *, alone: bool) -> int:
    """Of `wanted` samples those that may count, of a device that has `own` of the `total` of so
    many devices.
    """
    others = devices - (own > 0)
    most = SHARE_TIMES * (total - own) // others if others else (wanted + own) * alone
    return max(0, min(wanted, max(floor, most) - own))


def believable(before: Counts, change: Sequence[int]) -> Sequence[int]:
    """`change`, with no more of anything than samples in all: who lets counts fall and rise again
    could say otherwise.
    """
    after = added(before, change)
    most = after[SAMPLES]
    if max(after[ESCALATED], after[AUDITED], after[FAILED]) <= most and (
        after[DISAGREED] <= after[AUDITED]
    ):
        return change
    fit = [min(count, most) for count in after]
    fit[DISAGREED] = min(fit[DISAGREED], fit[AUDITED])
    return [max(0, now - then) for now, then in zip(fit, before, strict=True)]


def difference(newer: Sequence[int], older: Sequence[int] | None) -> list[int] | None:
    """Element by element; None where something fell, which cumulative counts never do."""
    if older is None:
        return list(newer)
    if len(older) > len(newer):
        return None
    change = [a - b for a, b in zip(newer, older, strict=False)]
    change += newer[len(older) :]
    return None if min(change, default=0) < 0 else change


def _add(total: list[int], change: Sequence[int]) -> None:
    if len(total) < len(change):
        total += [0] * (len(change) - len(total))
    for i, count in enumerate(change):
        if count:
            total[i] += count


def _variance(hits: int, trials: int) -> float:
    """Of a rate's estimate, never 0."""
    return (hits + 0.5) * (trials - hits + 0.5) / ((trials + 1) ** 2 * trials)
