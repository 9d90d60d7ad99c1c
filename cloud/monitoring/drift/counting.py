"""From what a device says, cumulative, to what is new in it, as far as it is believed. Pure.

A report that comes twice, late or out of turn counts nothing; one that was lost is made up for by
the next. A device can say what it likes about itself, but only forward, only as fast as the region's
clock goes, and only in the bins of the reference of the version that it names.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import numpy as np

from cloud.monitoring.drift.reference import (
    ESCALATED,
    EXTRAS,
    LOOKED,
    MISSING,
    NOVEL,
    SAMPLES,
    Reference,
    Row,
)
from cloud.rollouts.collector import AHEAD_MAX, BURST, RATE_MAX
from cloud.rollouts.meter import BOOTS_KEPT
from shared.fleet.telemetry import Tally, Telemetry

_EXTRAS_AT: Final = slice(-EXTRAS, None)
_YOUNG_INTERVALS: Final = 2.0
"""A first report of a device that has been up for no longer is all new; of another one it is history,
and nobody knows how old."""
_WRAP: Final = (1 << 32) - 1
_NEW_MAX: Final = 1 << 31
"""Samples between two reports; of more, counters modulo 2^32 would say anything."""


class Doubt(StrEnum):
    """Why a report, or a part of it, does not count."""

    OLD = "old"
    """It came before, or another one has overtaken it."""
    SCHEMA = "another_schema"
    """Its sketches are counts in other bins than those of the version's reference."""
    FELL = "fell"
    """Its counters fell within a tally, which true ones never do."""
    RATE = "too_many"
    """More samples than a device can do; so many as it can are counted."""
    CONTRADICTS = "contradicts"
    """Its counters contradict each other."""


@dataclass(frozen=True, slots=True)
class Audits:
    """Samples that the edge was sure of while one audit share was in force."""

    share: float
    confident: int
    answered: int
    """Audits among them that the cloud answered."""
    disagreed: int


@dataclass(frozen=True, slots=True)
class Increment:
    """What is new since the report before."""

    row: Row
    """Of the reference's width: bins, then extras."""
    audits: tuple[Audits, ...] = ()
    escalated: int = 0
    escalated_answered: int = 0
    escalated_disagreed: int = 0

    @property
    def samples(self) -> int:
        return int(self.row[SAMPLES])


@dataclass(slots=True)
class Meter:
    """What a device counted last."""

    boot: str
    sequence: int
    at: float
    """When, by the region's clock."""
    started: int = -1
    samples: int = 0
    row: Row | None = None
    audits: tuple[Audits, ...] = ()
    escalated: tuple[int, int, int] = (0, 0, 0)
    """Escalated; answered and disagreed of those."""
    boots: tuple[str, ...] = ()
    """Lives that are over: what still comes from them is late."""


@dataclass(slots=True)
class Counted:
    """`increment` None: nothing is new, or it is not believed."""

    increment: Increment | None = None
    doubts: list[Doubt] = field(default_factory=list)


def count(
    meter: Meter | None, telemetry: Telemetry, reference: Reference, now: float
) -> tuple[Meter, Counted]:
    """`reference`: of the version that the report is about. The meter is changed in place."""
    if meter is not None and not is_newer(meter, telemetry, now):
        return meter, Counted(doubts=[Doubt.OLD])
    tally = telemetry.tally
    doubts: list[Doubt] = []
    row = _row(telemetry, reference, doubts)
    is_first = meter is None
    if meter is None:
        meter = Meter(telemetry.boot, -1, now)
    seconds = telemetry.uptime_s if is_first else max(0.0, now - meter.at)
    if meter.boot != telemetry.boot:
        meter.boots = (*meter.boots, meter.boot)[-BOOTS_KEPT:]
        meter.boot, meter.started = telemetry.boot, -1
    begins = tally.started != meter.started
    if tally.started < meter.started:
        return meter, Counted(doubts=[Doubt.OLD])
    before = Meter(meter.boot, 0, meter.at) if begins else meter
    found = _new(reference, before, tally, row, seconds, doubts)
    meter.sequence, meter.at = telemetry.sequence, now
    meter.started, meter.samples, meter.row = tally.started, tally.samples, row
    meter.audits, meter.escalated = _audits(tally), _escalated(tally)
    if is_first and telemetry.uptime_s > _YOUNG_INTERVALS * telemetry.interval_s:
        return meter, Counted(doubts=doubts)
    return meter, Counted(found, doubts)


def is_newer(meter: Meter, telemetry: Telemetry, now: float) -> bool:
    """Than all that was heard; a number far ahead would silence those that follow."""
    if telemetry.boot in meter.boots:
        return False
    if telemetry.boot != meter.boot:
        return True
    passed = max(0.0, now - meter.at)  # the region's clock may be set back
    return 0 < telemetry.sequence - meter.sequence <= AHEAD_MAX + passed


def _row(telemetry: Telemetry, reference: Reference, doubts: list[Doubt]) -> Row:
    sketches, tally = telemetry.sketches, telemetry.tally
    row = np.zeros(reference.width, np.uint32)
    if sketches is not None and reference.features:
        bins = reference.row(sketches) if sketches.reference == reference.hash else None
        if bins is None:
            doubts.append(Doubt.SCHEMA)
        else:
            row = bins
            row[LOOKED], row[MISSING] = sketches.looked & _WRAP, sketches.missing & _WRAP
    elif sketches is not None:  # without bins there is still to see whether there is anything
        row[LOOKED], row[MISSING] = sketches.looked & _WRAP, sketches.missing & _WRAP
    row[SAMPLES], row[ESCALATED] = tally.samples & _WRAP, tally.escalated & _WRAP
    row[NOVEL] = tally.novel & _WRAP
    return row


def _new(
    reference: Reference, before: Meter, tally: Tally, row: Row, seconds: float,
    doubts: list[Doubt],
) -> Increment | None:  # fmt: skip
    samples = tally.samples - before.samples
    audits = _grown(before.audits, _audits(tally))
    escalated = [a - b for a, b in zip(_escalated(tally), before.escalated, strict=True)]
    if samples < 0 or min(escalated) < 0 or audits is None:
        doubts.append(Doubt.FELL)
        return None
    if samples > _NEW_MAX:
        doubts.append(Doubt.RATE)
        return None
    if before.row is not None and before.row.shape != row.shape:  # the reference came meanwhile
        return None
    change = row if before.row is None else row - before.row  # modulo 2^32
    if not _adds_up(reference, change, samples, audits, escalated):
        doubts.append(Doubt.CONTRADICTS)
        return None
    most = RATE_MAX * seconds + BURST
    if samples > most:
        doubts.append(Doubt.RATE)  # an estimate is worth nothing from such a device
        return Increment((change * (most / samples)).astype(np.uint32))
    if not samples and not any(escalated) and not audits:
        return None
    return Increment(change, audits, *escalated)


def _adds_up(
    reference: Reference, change: Row, samples: int, audits: tuple[Audits, ...],
    escalated: Sequence[int],
) -> bool:  # fmt: skip
    """Answers may be about earlier samples; everything else is about these."""
    extras = change[_EXTRAS_AT].tolist()
    if max(extras) > samples or extras[MISSING] > extras[LOOKED]:
        return False
    if sum(one.confident for one in audits) > samples:
        return False
    if any(one.disagreed > one.answered for one in audits) or escalated[2] > escalated[1]:
        return False
    return all(
        int(change[one.begin : one.end].sum(dtype=np.uint64)) <= samples
        for one in reference.features
    )  # a device could fill everybody's bins otherwise


def _audits(tally: Tally) -> tuple[Audits, ...]:
    return tuple(
        Audits(one.share, one.confident, min(one.answered, one.audited), one.disagreed)
        for one in tally.strata
    )


def _escalated(tally: Tally) -> tuple[int, int, int]:
    """Of a tally's escalated samples no more are answered than there are, in whichever report."""
    answered = min(tally.answered - tally.audit_answered, tally.escalated)
    disagreed = max(0, tally.disagreed - tally.audit_disagreed)
    return tally.escalated, answered, min(disagreed, answered)


def _grown(before: tuple[Audits, ...], after: tuple[Audits, ...]) -> tuple[Audits, ...] | None:
    """By the share that was in force; None where something fell."""
    known = {one.share: one for one in before}
    found: dict[float, Audits] = {}
    for one in after:
        old = known.pop(one.share, None)
        change = one if old is None else Audits(
            one.share, one.confident - old.confident, one.answered - old.answered,
            one.disagreed - old.disagreed,
        )  # fmt: skip
        if min(change.confident, change.answered, change.disagreed) < 0 or one.share in found:
            return None
        found[one.share] = change
    changed = tuple(one for one in found.values() if one.confident or one.answered)
    return None if known else changed
