"""Telemetry to evidence: what of a device's cumulative word is new, and believable.

A report that comes twice, late or out of turn changes nothing; one that was lost is made up for by
the next. A device can say what it likes about itself, but only as fast as the region's clock goes
(`RATE_MAX`), only forward, and only for the version that it is known to run.
"""

from collections.abc import Sequence
from typing import Final, Literal

from cloud.rollouts.arms import SHARE_FLOOR, believable, difference
from cloud.rollouts.documents import ModelSubject, Phase
from cloud.rollouts.member import Member
from cloud.rollouts.meter import BOOTS_KEPT, FAILED, NONE, SAMPLES, Counts, Meter, packed
from cloud.rollouts.run import Run
from shared.fleet.telemetry import Shadow, Tally, Telemetry

RATE_MAX: Final = 5000.0
"""Inferences a second that a device can do; more is not believed. A small model takes 0.2 ms."""
BURST: Final = 1000
"""Inferences that may come over that: reports are not evenly spaced."""
AHEAD_MAX: Final = 1000
"""Reports that may be missing between two; a number far ahead would silence all that follow."""

Arm = Literal["cohort", "control"]
_ON_NEW = frozenset({Phase.COMMITTED, Phase.DONE})


def measured(run: Run, member: Member, telemetry: Telemetry, now: float) -> None:
    meter = member.meter
    if meter is not None and not _is_newer(meter, telemetry, now):
        return
    run.touch(member)
    run.head = True
    first = meter is None
    if meter is None:
        tally = telemetry.tally
        begun = _from(run, member, now)
        meter = Meter(telemetry.boot, -1, -1, tally.version, NONE, begun, shadow_at=begun)
        member.meter = meter
    elif meter.boot != telemetry.boot:
        meter.boots = (*meter.boots, meter.boot)[-BOOTS_KEPT:]
        _swapped(meter)
        meter.boot, meter.shadow = telemetry.boot, None
    meter.sequence = telemetry.sequence
    if telemetry.shadow is not None:
        _shadow(run, member, meter, telemetry.shadow, now)
    _tally(run, member, meter, telemetry, now, first=first)


def _is_newer(meter: Meter, telemetry: Telemetry, now: float) -> bool:
    if telemetry.boot in meter.boots:
        return False
    if telemetry.boot != meter.boot:
        return True
    ahead = telemetry.sequence - meter.sequence
    return 0 < ahead <= AHEAD_MAX + (now - meter.at)


def _from(run: Run, member: Member, now: float) -> float:
    """Since when a device that was never heard may have counted."""
    begun = run.started_at if member.taken_at is None else member.taken_at
    return now if begun is None else begun


def _arm(run: Run, member: Member, tally: Tally) -> Arm | None:
    subject = run.spec.subject
    on_new = member.phase in _ON_NEW and member.runs_new
    if not isinstance(subject, ModelSubject):
        return "cohort" if on_new else None if member.ordered else "control"
    if tally.model != subject.model:
        return None
    if tally.version == subject.version:
        return "cohort" if on_new else None
    if member.before is not None and tally.version != member.before:
        return None
    return None if on_new or member.phase in (Phase.UNDOING, Phase.UNDONE) else "control"


def _tally(
    run: Run, member: Member, meter: Meter, telemetry: Telemetry, now: float, *, first: bool
) -> None:
    tally = telemetry.tally
    arm = _arm(run, member, tally)
    if arm is None or tally.started < meter.started:
        return
    if tally.started > meter.started:
        _swapped(meter)
    base = meter.counts
    counts = _counts(tally)
    ran_it_before = first and arm == "cohort" and tally.version == member.before
    straddles, meter.straddles = meter.straddles, False
    change: Sequence[int] | None = difference(counts, base)
    meter.counts, meter.started, meter.version = counts, tally.started, tally.version
    seconds, meter.at = max(0.0, now - meter.at), now
    histograms = _histograms(run, member, meter, tally)
    if change is None or ran_it_before or straddles:
        return  # counts fell, which true ones never do; or they began before the order
    if first and arm == "control":
        seconds = telemetry.uptime_s  # from before this rollout; it only speaks of itself
    limit = RATE_MAX * seconds + BURST
    if change[SAMPLES] > limit:
        _name(run, member, meter, change[SAMPLES], seconds)
        change = _scaled(change, limit / change[SAMPLES])
    if histograms is not None:
        histograms = (
            _fitting(histograms[0], change[SAMPLES]), _fitting(histograms[1], change[SAMPLES]),
        )  # fmt: skip
    _count(run, member, meter, arm, change, histograms, first=first)
    if arm == "control" and telemetry.uptime_s >= 1:
        meter.per_s = tally.samples / telemetry.uptime_s


def moved(member: Member) -> None:
    """A device took a profile: its tally goes on, so the next report covers time before it, too."""
    meter = member.meter
    if meter is not None:
        meter.straddles = True
        meter.old_latency, meter.old_confidence = meter.latency, meter.confidence


def _swapped(meter: Meter) -> None:
    """A new tally began; the longest on the version before is the history of the new one."""
    ended = meter.latency
    if ended is not None and not any(meter.cohort):
        kept = meter.old_latency
        if kept is None or sum(ended) >= sum(kept):
            meter.old_latency, meter.old_confidence = ended, meter.confidence
    meter.started, meter.counts = -1, NONE
    meter.latency = meter.confidence = None


def _counts(tally: Tally) -> Counts:
    return (
        tally.samples, tally.escalated, min(tally.audit_answered, tally.samples),
        min(tally.audit_disagreed, tally.samples), min(tally.failed, tally.samples),
    )  # fmt: skip


def _histograms(
    run: Run, member: Member, meter: Meter, tally: Tally
) -> tuple[Sequence[int], Sequence[int]] | None:
    """What they grew by; None where this device's do not count."""
    if not run.in_panel(member):
        return None
    confidence = [count for row in tally.confidence for count in row]
    grown = difference(tally.latency, meter.latency), difference(confidence, meter.confidence)
    meter.latency, meter.confidence = packed(tally.latency), packed(confidence)
    if grown[0] is None or grown[1] is None:
        return None
    return grown[0], grown[1]


def _count(
    run: Run, member: Member, meter: Meter, arm: Arm, change: Sequence[int],
    histograms: tuple[Sequence[int], Sequence[int]] | None, *, first: bool,
) -> None:  # fmt: skip
    evidence = run.evidence
    wanted = change[SAMPLES]
    if arm == "cohort":
        member.samples += change[SAMPLES]
        member.failures += change[FAILED]
    if first and arm == "control":
        change = _scaled(change, min(1.0, SHARE_FLOOR / max(1, wanted)))
    alone = (run.reached if arm == "cohort" else len(run.members)) <= 1
    allowed = evidence.allowed(meter, change[SAMPLES], cohort=arm == "cohort", alone=alone)
    if allowed < change[SAMPLES]:
        change = _scaled(change, allowed / change[SAMPLES])
    share = change[SAMPLES] / wanted if wanted else 1.0
    change = believable(meter.cohort if arm == "cohort" else meter.history, change)
    if arm == "control":
        evidence.count_control(meter, change, live=run.live_at is not None and not first)
        if histograms is not None:
            evidence.latency.stayed(_scaled(histograms[0], share))
            evidence.confidence.stayed(_scaled(histograms[1], share))
        return
    evidence.count_cohort(meter, change)
    run.now_stage.samples += change[SAMPLES]
    if histograms is not None:
        counted = meter.cohort[SAMPLES]
        for one, grown, history in (
            (evidence.latency, histograms[0], meter.old_latency),
            (evidence.confidence, histograms[1], meter.old_confidence),
        ):
            one.moved(_scaled(grown, share), counted, history)


def _scaled(counts: Sequence[int], share: float) -> Sequence[int]:
    return counts if share >= 1 else [int(count * share) for count in counts]


def _fitting(histogram: Sequence[int], samples: int) -> Sequence[int]:
    """No more in it than samples came: one device could fill everybody's."""
    total = sum(histogram)
    return histogram if total <= samples else _scaled(histogram, samples / total)


def _name(run: Run, member: Member, meter: Meter, more: int, seconds: float) -> None:
    if not meter.distrusted:
        meter.distrusted = True
        run.note(
            "distrusted",
            f"{member.device} reports {more} inferences more in {seconds:.0f} s; "
            f"at most {RATE_MAX:.0f} a second are counted",
            member.device,
        )


def _shadow(run: Run, member: Member, meter: Meter, shadow: Shadow, now: float) -> None:
    """The candidate beside the active version, while the shadow stage is open."""
    subject = run.spec.subject
    if (
        not isinstance(subject, ModelSubject)
        or shadow.version != subject.version
        or member.phase not in (Phase.STAGED, Phase.TRIAL)
        or run.now_stage.kind != "shadow"
    ):
        return
    counts = [
        shadow.started, shadow.samples, shadow.agreed, shadow.failed, shadow.both_right,
        shadow.only_candidate_right, shadow.only_active_right, shadow.both_wrong,
    ]  # fmt: skip
    last = meter.shadow
    if last is not None and counts[0] < last[0]:
        return
    base = last[1:] if last is not None and counts[0] == last[0] else None
    meter.shadow = counts
    change = difference(counts[1:], base)
    if change is None or max(change[1:3]) > change[0] or sum(counts[4:]) > counts[1]:
        return
    seconds = max(0.0, now - meter.shadow_at)
    meter.shadow_at = now
    if change[0] > RATE_MAX * seconds + BURST:
        _name(run, member, meter, change[0], seconds)
        return
    run.evidence.count_shadow(meter, change, alone=run.reached <= 1)
