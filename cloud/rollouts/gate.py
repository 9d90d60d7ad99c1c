"""When a stage ends and the next one opens: on evidence, never on time alone. Pure.

What is missing at a stage's end is said. When it is missing for `PATIENCE` times as long as the stage
should last, the rollout pauses and asks a person: nothing passes for want of data.
"""

from collections.abc import Iterator
from typing import Final

from cloud.rollouts.clock import is_deaf
from cloud.rollouts.documents import CriterionView, Phase, RolloutStatus
from cloud.rollouts.events import SetBaseline
from cloud.rollouts.judging import Figures, judge
from cloud.rollouts.orders import enqueue_stage
from cloud.rollouts.run import Run
from cloud.rollouts.stages import FAILED, INSTALLING, Stage
from cloud.rollouts.undoing import stop

PATIENCE: Final = 3.0
_UNDER_WAY = INSTALLING | {Phase.QUEUED, Phase.ORDERED, Phase.COMMITTED}


def verdicts(run: Run, now: float) -> tuple[CriterionView, ...]:
    quiet, heard = run.hearing.silent(now)
    figures = Figures(run.spec, run.standing.of(0, len(run.standing.counts)), quiet, heard)
    return tuple(judge(one, run.evidence, figures) for one in run.criteria)


def look(run: Run, now: float) -> None:
    """Stop on bad evidence; open the next stage when this one has shown what it should."""
    if not run.active:
        return
    if run.evidence.changed:
        run.evidence.changed = False
        run.judged = verdicts(run, now)
        bad = [one for one in run.judged if one.verdict == "violated"]
        if bad:
            _bad(run, bad[0], now)
            return
    if run.status is not RolloutStatus.RUNNING and not run.asks:
        return
    stage = run.now_stage
    missing = "" if stage.skipped else next(_missing(run, stage, now), "")
    if missing:
        _ask(run, stage, missing, now)
    elif run.asks:
        run.status, run.why, run.asks, run.head = RolloutStatus.RUNNING, "", False, True
        run.note("goes_on", f"{stage.kind} {stage.number}: what was missing has come")
    elif _approved(run):
        _next(run, now)


def waits_for(run: Run, now: float) -> str:
    """What the open stage needs before the next, in words."""
    if not run.active:
        return ""
    return next(_missing(run, run.now_stage, now), "")


def _bad(run: Run, one: CriterionView, now: float) -> None:
    words = f"{one.text} is violated: {one.words or _seen(one)}"
    run.note("criterion_violated", words)
    if run.spec.on_bad == "undo":
        stop(run, now, words, undo=True)
    elif run.status is RolloutStatus.RUNNING or run.asks:
        run.status, run.why, run.asks, run.head = RolloutStatus.PAUSED, words, False, True


def _seen(one: CriterionView) -> str:
    return f"{one.cohort} of {one.samples} samples"


def _missing(run: Run, stage: Stage, now: float) -> Iterator[str]:
    """The devices' ways, then time, then samples, then the criteria."""
    spec = run.spec
    cuts = (0, 1) if stage.kind == "shadow" else (0, len(run.standing.counts))
    if stage.kind not in ("shadow", "watch"):
        cuts = (_cut(run, stage), _cut(run, stage) + 1)
    phases = run.standing.of(*cuts)
    if stage.kind == "shadow":
        open_ones = sum(phases.get(one, 0) for one in _UNDER_WAY - {Phase.STAGED, Phase.COMMITTED})
    elif stage.kind == "watch":
        open_ones = 0
    else:
        open_ones = sum(phases.get(one, 0) for one in _UNDER_WAY)
    if open_ones:
        words = ", ".join(f"{n} {p.value}" for p, n in phases.items() if p in _UNDER_WAY)
        yield f"{open_ones} devices that are under way: {words}"
    opened = _opened(stage, now)
    begun = opened if stage.took_at is None else max(opened, stage.took_at)
    if stage.kind == "shadow":
        samples = run.evidence.shadow.samples
        if samples < spec.shadow_samples:
            yield f"samples in shadow: {samples} of {spec.shadow_samples}"
    elif stage.kind == "watch":
        left = _ends(stage, opened + spec.watch_s) - now
        if left > 0:
            yield f"the watch's end, in {left:.0f} s"
    else:
        left = _ends(stage, begun + spec.wave_s) - now
        if left > 0:
            yield f"time to gather evidence: {left:.0f} s more"
        if stage.samples < spec.samples_min:
            yield f"samples on the new version: {stage.samples} of {spec.samples_min}"
    if is_deaf(run, now):
        yield f"a word of any device: none for {now - run.heard_at:.0f} s"
    for one, view in zip(run.criteria, run.judged, strict=False):
        if view.verdict != "holds" and _asked(one.measure.stage, stage):
            yield f"{one.text}: {view.verdict}" + (f" ({view.words})" if view.words else "")


def _ends(stage: Stage, at: float) -> float:
    """Later by what nobody saw."""
    at += stage.unseen_s
    return at if stage.ends_after is None else max(at, stage.ends_after)


def _opened(stage: Stage, now: float) -> float:
    return now if stage.opened_at is None else stage.opened_at


def _asked(where: str, stage: Stage) -> bool:
    """Whether a criterion that has data in these stages must hold for this one to end."""
    return (where == "any" and stage.kind != "shadow") or where == (
        "shadow" if stage.kind == "shadow" else "live"
    )


def _cut(run: Run, stage: Stage) -> int:
    return run.members[stage.first].cut


def _ask(run: Run, stage: Stage, missing: str, now: float) -> None:
    """After a while a person has to decide; unless what is missing comes after all."""
    if run.asks:
        return
    spec = run.spec
    long = {"shadow": spec.shadow_s, "watch": PATIENCE * max(spec.wave_s, spec.watch_s)}.get(
        stage.kind, PATIENCE * spec.wave_s
    )
    if _devices_move(run, stage) or missing.startswith(("time to gather", "the watch's end")):
        stage.asked_at = None
        return
    if stage.asked_at is None:
        stage.asked_at, run.head = now, True
    elif now - stage.asked_at > long:
        stage.asked_at = None
        words = f"waits {now - _opened(stage, now):.0f} s for {missing}; a person decides: resume, skip or undo"
        run.note("asks", words)
        run.status, run.why, run.asks, run.head = RolloutStatus.PAUSED, words, True, True


def _devices_move(run: Run, stage: Stage) -> bool:
    """Their own deadlines end that; the whole stage need not wait for evidence yet."""
    if stage.kind == "watch":
        return False
    cut = 0 if stage.kind == "shadow" else _cut(run, stage)
    phases = run.standing.of(cut, cut + 1)
    moving = _UNDER_WAY - ({Phase.STAGED, Phase.COMMITTED} if stage.kind == "shadow" else set())
    return any(phases.get(phase, 0) for phase in moving)


def _approved(run: Run) -> bool:
    if run.stage + 1 >= len(run.stages):
        return True
    following = run.stages[run.stage + 1]
    if following.kind not in run.spec.approvals or following.approved:
        run.waits = False
        return True
    if not run.waits:
        run.waits = run.head = True
        run.note("waits_for_approval", f"{following.kind} {following.number} waits for approval")
    return False


def _next(run: Run, now: float) -> None:
    run.now_stage.ended_at = now
    run.head = True
    if run.stage + 1 == len(run.stages):
        _succeed(run, now)
        return
    run.stage += 1
    open_stage(run, now)


def open_stage(run: Run, now: float) -> None:
    stage = run.now_stage
    stage.opened_at = now
    run.head = True
    if stage.kind != "shadow" and run.live_at is None:
        run.live_at = now
    run.note("stage_opened", f"{stage.kind} {stage.number}: {stage.end - stage.first} devices")
    if stage.kind != "watch":
        enqueue_stage(run, now)
    run.evidence.changed = True


def _succeed(run: Run, now: float) -> None:
    for member in run.members:
        if member.phase in _UNDER_WAY and member.phase is not Phase.COMMITTED:
            run.move(member, Phase.LEFT, now, "was under way when it ended; its group has it now")
    run.status, run.ended_at, run.why = RolloutStatus.SUCCEEDED, now, ""
    phases = run.standing.of(0, len(run.standing.counts))
    failed = sum(phases.get(one, 0) for one in FAILED)
    left = phases.get(Phase.LEFT, 0)
    words = f"{phases.get(Phase.DONE, 0)} devices are done, {failed} failed, {left} left"
    run.note("succeeded", words)
    if not run.spec.selector:  # the others of the group have shown nothing
        run.out.append(SetBaseline())
