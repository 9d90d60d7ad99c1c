"""A cycle, from its trigger to an end. Sans I/O.

`step` takes the cycle and one event, and gives the cycle as it is then; what is to be done next
stands in it (`CycleRecord.doing`). Between two events a cycle that is not over does something, asks a
person, or both: it is never stuck in silence.
"""

from dataclasses import dataclass
from typing import assert_never

from cloud.learning.documents import Arrow, Cycle, LoopSettings, Phase
from cloud.learning.loop import answers
from cloud.learning.loop.commands import CancelJob, Count, Reject, Undo
from cloud.learning.loop.events import Answered, Event, Go, Stop
from cloud.learning.loop.moves import changed, close, enter, now_in
from cloud.learning.loop.record import Begun, CycleRecord, Ending, cycle_id, data_spec
from shared.errors import Conflict

_JOB_MAY_BE = frozenset({Phase.TRAINING, Phase.EVALUATING})
_STAYS = {
    Phase.EVALUATING: "; the version stays in the registry, if it is there",
    Phase.APPROVING: "; the candidate stays in the registry",
    Phase.RELEASING: "; the version stays in the registry, released where that was done already",
    Phase.ROLLING_OUT: "; the rollout goes on as it is: hybridge rollout abort or undo ends it",
    Phase.WATCHING: "; the new version stays",
}


@dataclass(frozen=True, slots=True)
class Step:
    record: CycleRecord
    line: str = ""
    """For the cycle's log; empty: nothing that anybody would look up."""


def begin(settings: LoopSettings, begun: Begun, now: float) -> Step:
    """A new cycle, which counts samples first."""
    record = CycleRecord(
        cycle=Cycle(
            id=cycle_id(settings.model, begun.number), model=settings.model, trigger=begun.trigger,
            trigger_words=begun.words, phase=Phase.COLLECTING, begun_at=now, since=now,
            waits_for="the number of samples that there are",
        ),
        settings=settings, samples_since=begun.samples_since,
        labels_wanted=settings.teacher_gate.labelled_min,
        doing=Count(
            spec=data_spec(settings, begun.samples_since, None), teacher=settings.teacher,
            group=settings.group,
        ),
    )  # fmt: skip
    return Step(record, f"begun by {begun.trigger}: {begun.words}")


def step(record: CycleRecord, event: Event, now: float) -> Step:
    """What follows. An answer to an earlier revision's command, and all that comes after the end,
    changes nothing.

    Raises `Conflict` for a person's word that does not fit.
    """
    match event:
        case Answered(revision=revision, answer=answer):
            if record.is_over or revision != record.cycle.revision:
                return Step(record)
            return _lined(record, answers.answered(record, answer, now))
        case Go(by=by, comment=comment):
            asked = _asked(record)
            granted = changed(record, now, granted=record.granted | {asked})
            return Step(enter(granted, asked, now), f"{by} says go before {asked}: {comment}")
        case Stop(by=by, comment=comment):
            return Step(_stopped(record, f"stopped by {by}: {comment}", now), f"stopped by {by}")
        case _:
            assert_never(event)


def _asked(record: CycleRecord) -> Arrow:
    asked = record.cycle.asks
    if record.is_over or asked is None:
        where = record.cycle.why if record.is_over else record.cycle.waits_for
        raise Conflict(
            f"cycle {record.cycle.id} is {record.cycle.phase} and asks nobody for a go: {where}"
        )
    return asked


def _stopped(record: CycleRecord, why: str, now: float) -> CycleRecord:
    cycle = record.cycle
    if record.is_over:
        raise Conflict(f"cycle {cycle.id} is over: {cycle.phase}, {cycle.why}")
    if record.ending is not None:
        return _cut(record, record.ending, why, now)
    stays = _STAYS.get(cycle.phase, "")
    if cycle.phase in _JOB_MAY_BE and cycle.version is not None:
        cancel = CancelJob(key=cycle.id, why=why[:500])
        return close(record, Phase.STOPPED, why + stays, now, cancel)
    return close(record, Phase.STOPPED, why + stays, now)


def _cut(record: CycleRecord, ending: Ending, why: str, now: float) -> CycleRecord:
    """Only what was tried in vain is given up, and it may have been done: nobody answered."""
    cycle = record.cycle
    match record.doing:
        case Reject(model=model, version=version) if ending.was_away:
            undone = (
                f"{model} {version} may not be rejected: hybridge model reject {model} {version}"
            )
        case Undo(rollout=rollout) if ending.was_away:
            undone = f"rollout {rollout} may not be undone: hybridge rollout undo {rollout}"
        case _:  # it is about to be done; a job is cancelled in this process, so that is never away
            raise Conflict(f"cycle {cycle.id} ends already, after this: {cycle.waits_for}")
    return close(record, ending.phase, f"{ending.why[:500]}; {why[:200]}; {undone}", now)


def _lined(before: CycleRecord, after: CycleRecord) -> Step:
    """A line where another phase began, or the cycle ends, asks, or waits for something else."""
    one, other = before.cycle, after.cycle
    if now_in(one) == now_in(other):
        return Step(after)
    says = other.why if after.is_over else other.waits_for
    asks = f", asks before {other.asks}" if other.asks is not None else ""
    return Step(after, f"{other.phase}{asks}" + (f": {says}" if says else ""))
