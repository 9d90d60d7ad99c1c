"""What an answer means where the cycle is. Pure."""

from typing import assert_never

from cloud.learning.documents import Arrow, Phase
from cloud.learning.loop import events as e
from cloud.learning.loop.commands import (
    Approve,
    Count,
    Reject,
    Release,
    Submit,
    Undo,
    WatchEvaluation,
    WatchJob,
    WatchVersion,
)
from cloud.learning.loop.gates import acceptance_gate, teacher_gate
from cloud.learning.loop.moves import changed, close, enter, rollout_watch, version_of
from cloud.learning.loop.record import CycleRecord
from cloud.learning.loop.wishes import flooded, job_spec, missing_samples, unlabelled
from cloud.registry.documents import State
from cloud.rollouts.documents import RolloutStatus
from cloud.training.documents import JobState

_GONE = frozenset({State.REJECTED, State.RETIRED})
_UNDONE = frozenset({RolloutStatus.ABORTED, RolloutStatus.ROLLED_BACK})
_UNDOABLE = frozenset({RolloutStatus.RUNNING, RolloutStatus.PAUSED})


def answered(record: CycleRecord, answer: e.Answer, now: float) -> CycleRecord:
    """The record as it was where the answer says nothing new."""
    if record.ending is not None:
        return _ended(record, answer, now)
    match answer:
        case e.Away(words=words):
            return waiting(record, words, now)
        case e.Refused(words=words):
            return _refused(record, words, now)
        case e.Counted():
            return _counted(record, answer, now)
        case e.Built(data_set=made):
            return _built(record, answer, now) if made.holdout_rows else close(
                record, Phase.REFUSED, f"data set {made.name}: nothing is held out to measure on; it "
                f"has {made.rows} rows, and data.holdout_share is {made.spec.holdout_share:g}", now,
            )  # fmt: skip
        case e.Chosen():
            return _chosen(record, answer, now)
        case e.Submitted(job=job):
            return changed(record, now, job=job, doing=WatchJob(job=job))
        case e.JobSeen():
            return _job_seen(record, answer, now)
        case e.EvaluationSeen():
            return _evaluated(record, answer, now)
        case e.VersionSeen():
            return _version_seen(record, answer, now)
        case e.RolloutMade(rollout=rollout):
            made_one = changed(record, now, rollout=rollout)
            if rollout is None:
                return enter(made_one, Arrow.WATCH, now)
            return changed(made_one, now, doing=rollout_watch(made_one))
        case e.RolloutSeen():
            return _rollout_seen(record, answer, now)
        case e.CleanedUp():
            return record
        case _:
            assert_never(answer)


def waiting(record: CycleRecord, words: str, now: float) -> CycleRecord:
    """It goes on doing what it does; the same words again are no change."""
    if words[:1000] == record.cycle.waits_for:
        return record
    return changed(record, now, waits_for=words)


def _ended(record: CycleRecord, answer: e.Answer, now: float) -> CycleRecord:
    assert record.ending is not None
    phase, why = record.ending.phase, record.ending.why
    match answer:
        case e.Away(words=words) if record.ending.was_away:
            return waiting(record, words, now)
        case e.Away(words=words):
            tried = record.ending.model_copy(update={"was_away": True})
            return changed(record, now, ending=tried, waits_for=words)
        case e.Refused(words=words) | e.CleanedUp(words=words):
            return close(record, phase, f"{why}; {words}" if words else why, now)
        case _:
            return record


def _refused(record: CycleRecord, words: str, now: float) -> CycleRecord:
    cycle, version = record.cycle, record.cycle.version
    match record.doing:
        case Approve() | Release() as command:  # somebody who may can still do it
            watch = WatchVersion(model=cycle.model, version=version_of(record))
            done_by = f"hybridge model {command.kind} {cycle.model} {version}"
            return changed(
                record, now, doing=watch, waits_for=f"somebody who may do it: {done_by}; {words}"
            )
        case _:
            return close(record, Phase.FAILED, words, now)


def _counted(record: CycleRecord, seen: e.Counted, now: float) -> CycleRecord:
    settings = record.settings
    if (missing := settings.triggers.samples_min - seen.samples) > 0:
        return waiting(record, missing_samples(missing, seen.samples), now)
    verdict = teacher_gate(
        settings.teacher_gate, settings.acceptance.confidence, seen.people, record.looks
    )
    assert isinstance(record.doing, Count)
    words = f"{verdict.words}: {unlabelled(record.doing)}"
    match verdict.says:
        case "holds":
            return enter(changed(record, now, findings=verdict.findings), Arrow.DATA_SET, now)
        case "refused":
            looked = changed(record, now, findings=verdict.findings)
            return close(looked, Phase.REFUSED, verdict.words, now)
        case "open" if verdict.labels_wanted > record.labels_wanted:
            return changed(
                record, now, looks=record.looks + 1, labels_wanted=verdict.labels_wanted,
                findings=verdict.findings, waits_for=words,
            )  # fmt: skip
        case "open":
            return waiting(record, words, now)
        case _:
            assert_never(verdict.says)


def _built(record: CycleRecord, seen: e.Built, now: float) -> CycleRecord:
    made = seen.data_set
    record = changed(record, now, data_set=made.sha256)
    if not made.flooding:
        return enter(record, Arrow.TRAIN, now)
    asking = changed(record, now, asked_too=record.asked_too | {Arrow.TRAIN})
    return enter(asking, Arrow.TRAIN, now, flooded(made))


def _chosen(record: CycleRecord, seen: e.Chosen, now: float) -> CycleRecord:
    record = changed(
        record, now, version=seen.version, before=seen.before, teacher=seen.teacher
    )  # fmt: skip
    return changed(record, now, doing=Submit(key=record.cycle.id, spec=job_spec(record)))


def _job_seen(record: CycleRecord, seen: e.JobSeen, now: float) -> CycleRecord:
    job = seen.job
    match job.state:
        case JobState.QUEUED | JobState.RUNNING | JobState.STOPPING:
            tenths = int(job.progress * 10)
            place = f", place {job.place}" if job.place is not None else ""
            done = f", {tenths}0% done" if tenths else ""
            why = f": {job.why}" if job.why else ""
            return waiting(record, f"job {job.id}, {job.state}{place}{done}{why}", now)
        case JobState.FAILED | JobState.CANCELLED:
            why = f"job {job.id} {job.state}: {job.why}"
            return close(record, Phase.FAILED, why, now)
        case JobState.DONE:
            verdict = acceptance_gate(record.settings.acceptance, seen.figures)
            record = changed(record, now, findings=(*record.cycle.findings, *verdict.findings)[:64])
            if verdict.says == "holds":
                return enter(record, Arrow.EVALUATE, now)
            reject = Reject(
                model=record.cycle.model, version=version_of(record), job=job.id,
                why=verdict.words[:500],
            )  # fmt: skip
            return close(record, Phase.REFUSED, verdict.words, now, reject)
        case _:
            assert_never(job.state)


def _evaluated(record: CycleRecord, seen: e.EvaluationSeen, now: float) -> CycleRecord:
    where = f"{record.cycle.model} {record.cycle.version}"
    match seen.state:
        case "passed":
            return enter(record, Arrow.APPROVE, now)
        case "failed":
            return close(
                record, Phase.REFUSED, f"the registry's gate refuses {where}: {seen.why}", now
            )
        case "broken":
            return close(
                record, Phase.FAILED, f"the registry could not measure {where}: {seen.why}", now
            )
        case state:
            watch = WatchEvaluation(
                model=record.cycle.model, version=version_of(record), evaluation=seen.evaluation
            )
            words = f"the registry's evaluation of {where}, {state}"
            if record.doing == watch:
                return waiting(record, words, now)
            return changed(record, now, doing=watch, waits_for=words)


def _version_seen(record: CycleRecord, seen: e.VersionSeen, now: float) -> CycleRecord:
    cycle = record.cycle
    if seen.state in _GONE:
        why = f"{cycle.model} {cycle.version} was {seen.state} in the registry: {seen.why}"
        return close(record, Phase.REFUSED, why, now)
    if seen.state is State.RELEASED:
        return enter(record, Arrow.ROLLOUT, now)
    asks_nobody = seen.needs_nobody and cycle.asks is None
    if cycle.phase is Phase.APPROVING and (seen.is_approved or asks_nobody):
        return enter(record, Arrow.RELEASE, now)
    if isinstance(record.doing, WatchVersion):
        return record
    watch = WatchVersion(model=cycle.model, version=version_of(record))
    verb = "approve" if cycle.phase is Phase.APPROVING else "release"
    return changed(
        record, now, doing=watch,
        waits_for=f"hybridge model {verb} {cycle.model} {cycle.version}; {seen.why}",
    )  # fmt: skip


def _rollout_seen(record: CycleRecord, seen: e.RolloutSeen, now: float) -> CycleRecord:
    cycle, settings = record.cycle, record.settings
    if seen.status in _UNDONE:
        return close(
            record, Phase.FAILED, f"rollout {cycle.rollout} {seen.status}: {seen.why}", now
        )
    if seen.alarms:
        why = f"alarm on {cycle.model} {cycle.version}: {seen.alarms[0].words}"
        if cycle.rollout is None or seen.status not in _UNDOABLE:
            return close(
                record, Phase.FAILED, f"{why}; its devices keep it until somebody decides", now
            )
        return close(record, Phase.FAILED, why, now, Undo(rollout=cycle.rollout, why=why[:500]))
    is_out = seen.status in {None, RolloutStatus.SUCCEEDED} or seen.is_watching
    if cycle.phase is Phase.ROLLING_OUT:
        if cycle.asks is not None:
            return record
        if is_out:
            return enter(record, Arrow.WATCH, now)
        return waiting(record, f"rollout {cycle.rollout} {seen.status}: {seen.waits_for}", now)
    if now - cycle.since < settings.watch_s:
        return record
    if seen.status in _UNDOABLE:
        return waiting(record, f"the end of rollout {cycle.rollout}: {seen.waits_for}", now)
    return close(record, Phase.DONE, f"{cycle.model} {cycle.version} is out", now)
