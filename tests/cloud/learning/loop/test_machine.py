"""A cycle goes its way by answers and by people's words, and never stands still in silence."""

import math

import pytest

from cloud.feedback.documents import Flooding
from cloud.learning.documents import Arrow, Phase, Teacher
from cloud.learning.loop import commands as c
from cloud.learning.loop import events as e
from cloud.learning.loop.machine import step
from cloud.learning.loop.record import CycleRecord, Ending, cycle_id
from cloud.monitoring.drift.documents import Alarm, Cause, Kind, Scope
from cloud.registry.documents import State
from cloud.rollouts.documents import RolloutStatus
from cloud.training import figure_names as names
from cloud.training.documents import FineTune, JobState
from shared.errors import Conflict
from tests.cloud.learning.loop.cycles import (
    BETTER,
    GOOD,
    NOW,
    THROUGH,
    begun,
    data_set,
    job,
    told,
    until,
)

ALARM = Alarm(
    id="a-1", kind=Kind.ACCURACY, scope=Scope(kind="group", name="all", model="fashion-edge",
    version="1.0.1"), cause=Cause.MODEL, words="40% right", runbook="look", command="hybridge",
    opened_at=NOW + 5,
)  # fmt: skip
AN_ALARM = e.RolloutSeen(RolloutStatus.RUNNING, alarms=(ALARM,))
TOO_DIRTY = e.JobSeen(job(), {**GOOD, names.CLEAN: 0.90})
AWAY = e.Away("it cannot be reached")


def go(record: CycleRecord, now: float = NOW) -> CycleRecord:
    return step(record, e.Go("ann", "fine"), now).record


def test_with_nobody_asked_it_goes_from_a_trigger_to_its_end() -> None:
    record = told(begun(), *THROUGH)
    assert record.cycle.phase is Phase.WATCHING
    done = e.RolloutSeen(RolloutStatus.SUCCEEDED)
    assert told(record, done, now=NOW + 59).cycle.phase is Phase.WATCHING
    cycle = told(record, done, now=NOW + 61).cycle
    assert (cycle.phase, cycle.ended_at) == (Phase.DONE, NOW + 61)
    assert (cycle.version, cycle.job, cycle.rollout) == ("1.0.1", "finetune-1", "r-1")
    assert [one.name for one in cycle.findings] == [
        "teacher_gain", "teacher_chance", "gain", "gain_chance", "clean_loss",
    ]  # fmt: skip


@pytest.mark.parametrize("arrow", list(Arrow))
def test_each_arrow_can_ask_a_person_first(arrow: Arrow) -> None:
    record = begun(asks=frozenset({arrow}))
    for answer in THROUGH:
        if record.cycle.asks is not None:
            break
        record = told(record, answer)
    assert record.cycle.asks is arrow
    assert "go" in record.cycle.waits_for
    after = go(record)
    assert after.cycle.asks is None
    assert after.doing is not None
    assert after.cycle.phase is not record.cycle.phase or arrow in {Arrow.APPROVE, Arrow.RELEASE}


def test_a_second_copy_of_an_answer_changes_nothing() -> None:
    first = begun()
    answer = e.Answered(first.cycle.revision, THROUGH[0])
    once = step(first, answer, NOW).record
    assert step(once, answer, NOW + 1).record is once


def test_a_go_that_nobody_asked_for_is_refused() -> None:
    with pytest.raises(Conflict, match="asks nobody"):
        go(begun())


def test_too_few_samples_are_waited_for_in_words() -> None:
    record = told(begun(), e.Counted(15, BETTER))
    assert record.cycle.phase is Phase.COLLECTING
    assert record.cycle.waits_for == "90 more samples; 10 are there"
    assert told(record, e.Counted(16, BETTER)) is record  # no news for each sample


def test_too_few_labels_by_people_are_waited_for_in_words() -> None:
    record = told(begun(), e.Counted(600, e.Paired(both=15, first=5)))
    assert record.cycle.phase is Phase.COLLECTING
    assert record.cycle.waits_for.startswith("30 more labels by a person")


def test_the_labels_that_are_missing_are_listed_by_the_cycles_own_spec() -> None:
    few = e.Counted(600, e.Paired(both=15, first=5))
    alone = told(begun(), few).cycle.waits_for
    assert alone.endswith(
        "--unlabelled --model fashion-edge --cloud-model fashion-cloud --holdout-share 0.1"
    )
    data = {
        "model": "fashion-edge", "since": 3600.0, "holdout_share": 0.25, "sites": ["la halle"],
        "versions": ["1.0.0", "1.0.1"],
    }  # fmt: skip
    narrow = told(begun(data=data, group="lyon"), few).cycle.waits_for
    assert narrow.endswith(
        "hybridge feedback list --unlabelled --model fashion-edge --cloud-model fashion-cloud "
        "--holdout-share 0.25 --since 1970-01-01T01:00:00Z --site 'la halle' (of those: version 1.0.0, 1.0.1)"
    )
    assert told(begun(group="lyon"), few).cycle.waits_for.endswith("device of group lyon)")


def test_a_teacher_that_may_be_better_by_chance_is_looked_at_again_with_twice_as_many() -> None:
    unsure = e.Paired(both=30, first=11, second=9)
    record = told(begun(), e.Counted(600, unsure))
    assert (record.labels_wanted, record.looks) == (100, 1)
    more = e.Paired(both=30, first=31, second=9)  # sure by now, and still not looked at
    assert told(record, e.Counted(600, more)).cycle.phase is Phase.COLLECTING
    enough = e.Paired(both=60, first=31, second=9)
    assert told(record, e.Counted(600, enough)).cycle.phase is Phase.DATA_SET


def test_a_teacher_that_is_worse_than_the_edge_teaches_nobody() -> None:
    record = told(begun(), e.Counted(600, e.Paired(both=30, first=5, second=15)))
    assert record.cycle.phase is Phase.REFUSED
    assert "no better than the edge" in record.cycle.why
    assert [one.holds for one in record.cycle.findings] == [False, False]


def test_a_teacher_whom_nobody_is_to_judge_is_believed_and_that_is_said() -> None:
    record = told(begun(teacher_gate=Teacher(labelled_min=0)), e.Counted(600, e.Paired()))
    assert record.cycle.phase is Phase.DATA_SET
    assert "nobody was asked" in record.cycle.findings[0].words


def test_a_device_that_floods_a_class_is_named_and_a_person_asked() -> None:
    flood = Flooding(device="camera-9", label=3, rows=40, dropped=260)
    record = told(until("build"), e.Built(data_set(flood)))
    assert record.cycle.asks is Arrow.TRAIN
    assert "camera-9" in record.cycle.waits_for
    assert isinstance(go(record).doing, c.Choose)


def test_a_data_set_of_which_nothing_is_held_out_is_refused() -> None:
    record = told(until("build"), e.Built(data_set(holdout_rows=0)))
    assert record.cycle.phase is Phase.REFUSED
    assert "holdout_share" in record.cycle.why


def test_the_job_is_of_the_current_version_and_the_data_set() -> None:
    doing = until("submit").doing
    assert isinstance(doing, c.Submit)
    recipe = doing.spec.recipe
    assert isinstance(recipe, FineTune)
    assert (recipe.student, recipe.teacher) == ("fashion-edge@1.0.0", "fashion-cloud@2.0.0")
    assert (recipe.version, doing.spec.data_set) == ("1.0.1", data_set().sha256)
    assert doing.spec.push


def test_who_is_asked_before_it_is_measured_is_asked_before_it_is_pushed() -> None:
    doing = until("submit", asks=frozenset({Arrow.EVALUATE})).doing
    assert isinstance(doing, c.Submit)
    assert not doing.spec.push


@pytest.mark.parametrize("state", [JobState.FAILED, JobState.CANCELLED])
def test_a_job_that_fails_ends_the_cycle_with_its_words(state: JobState) -> None:
    record = told(until("watch_job"), e.JobSeen(job(state, "loss is nan at step 12")))
    assert record.cycle.phase is Phase.FAILED
    assert "loss is nan at step 12" in record.cycle.why


@pytest.mark.parametrize("name", sorted(GOOD))
@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_a_figure_that_is_missing_or_no_number_never_passes(name: str, value: float | None) -> None:
    figures = dict(GOOD)
    if value is None:
        del figures[name]
    else:
        figures[name] = value
    record = told(until("watch_job"), e.JobSeen(job(), figures))
    assert isinstance(record.doing, c.Reject)
    assert told(record, e.CleanedUp("it is rejected")).cycle.phase is Phase.REFUSED


def test_a_version_that_lost_too_much_on_clean_data_is_rejected_in_the_registry() -> None:
    figures = {**GOOD, names.CLEAN: 0.90}
    record = told(until("watch_job"), e.JobSeen(job(), figures))
    assert record.cycle.phase is Phase.TRAINING  # until the registry knows
    assert "clean_loss is 0.021" in record.cycle.waits_for
    ended = told(record, e.CleanedUp("fashion-edge 1.0.1 is rejected"))
    assert ended.cycle.phase is Phase.REFUSED
    assert ended.cycle.why.endswith("fashion-edge 1.0.1 is rejected")


def test_the_registrys_gate_says_no() -> None:
    record = told(until("watch_evaluation"), e.EvaluationSeen("0198", "failed", "f1 is 0.6"))
    assert record.cycle.phase is Phase.REFUSED
    assert "f1 is 0.6" in record.cycle.why


def test_an_evaluation_that_broke_says_nothing_about_the_version() -> None:
    record = told(until("watch_evaluation"), e.EvaluationSeen("0198", "broken", "disk full"))
    assert record.cycle.phase is Phase.FAILED


def test_without_a_release_key_a_person_releases_and_it_goes_on() -> None:
    record = told(until("release"), e.Refused("no release key here"))
    assert record.cycle.phase is Phase.RELEASING
    assert "hybridge model release fashion-edge 1.0.1" in record.cycle.waits_for
    assert told(record, e.VersionSeen(State.CANDIDATE, is_approved=True)) is record
    after = told(record, e.VersionSeen(State.RELEASED, is_approved=True))
    assert isinstance(after.doing, c.Roll)


def test_who_approves_and_releases_in_the_registry_has_said_go() -> None:
    record = told(
        until("approve", asks=frozenset({Arrow.RELEASE})),
        e.VersionSeen(State.CANDIDATE, is_approved=True),
    )
    assert record.cycle.asks is Arrow.RELEASE
    assert isinstance(record.doing, c.WatchVersion)
    assert isinstance(
        told(record, e.VersionSeen(State.RELEASED, is_approved=True)).doing, c.Roll
    )  # fmt: skip


def test_a_gate_that_needs_nobody_is_no_approval_while_the_loop_asks_a_person() -> None:
    by_rule = e.VersionSeen(State.CANDIDATE, is_approved=False, needs_nobody=True)
    asking = told(until("watch_evaluation", asks=frozenset({Arrow.APPROVE})), THROUGH[7])
    assert asking.cycle.asks is Arrow.APPROVE
    assert told(asking, by_rule) is asking
    approved = told(asking, e.VersionSeen(State.CANDIDATE, is_approved=True, needs_nobody=True))
    assert isinstance(approved.doing, c.Release)
    assert isinstance(told(go(asking), by_rule).doing, c.Release)
    assert isinstance(told(until("approve"), by_rule).doing, c.Release)  # whom nobody is to ask


def test_who_rejects_it_in_the_registry_ends_the_cycle() -> None:
    record = told(until("release"), e.Refused("no key"))
    ended = told(record, e.VersionSeen(State.REJECTED, is_approved=False, why="by bob: no"))
    assert ended.cycle.phase is Phase.REFUSED
    assert "by bob" in ended.cycle.why


def test_without_a_fleet_it_watches_what_was_released() -> None:
    record = told(until("roll"), e.RolloutMade(None))
    assert record.cycle.phase is Phase.WATCHING
    assert told(record, e.RolloutSeen(None), now=NOW + 61).cycle.phase is Phase.DONE


def test_a_rollout_that_went_back_ends_the_cycle_with_its_words() -> None:
    seen = e.RolloutSeen(RolloutStatus.ROLLED_BACK, why="disagreement 0.2")
    record = told(until("watch_rollout"), seen)
    assert record.cycle.phase is Phase.FAILED
    assert "disagreement 0.2" in record.cycle.why


def test_an_alarm_on_the_new_version_undoes_the_rollout() -> None:
    record = told(until("watch_rollout"), AN_ALARM)
    assert record.doing == c.Undo(rollout="r-1", why="alarm on fashion-edge 1.0.1: 40% right")
    assert told(record, e.CleanedUp("r-1 is being undone")).cycle.phase is Phase.FAILED


@pytest.mark.parametrize(
    ("at", "why", "phase", "left"),
    [
        ("watch_rollout", AN_ALARM, Phase.FAILED, "hybridge rollout undo r-1"),
        ("watch_job", TOO_DIRTY, Phase.REFUSED, "hybridge model reject fashion-edge 1.0.1"),
    ],
    ids=["undo", "reject"],
)
def test_a_stop_ends_a_cycle_whose_last_command_nobody_answers_and_says_what_was_left(
    at: str, why: e.Answer, phase: Phase, left: str
) -> None:
    """And no stop, the first or the second, keeps that command from being tried."""
    ending = told(until(at), why)
    for _ in range(2):
        with pytest.raises(Conflict, match="ends already"):
            step(ending, e.Stop("ann", "not today"), NOW)
    tried = told(ending, AWAY)
    assert tried.doing == ending.doing
    assert told(tried, AWAY) is tried
    cycle = step(tried, e.Stop("ann", "it is gone"), NOW).record.cycle
    assert (cycle.phase, cycle.ended_at) == (phase, NOW)
    assert "; stopped by ann: it is gone; " in cycle.why
    assert left in cycle.why


def test_a_stored_end_of_before_reads_as_one_that_was_not_tried() -> None:
    assert not Ending.model_validate_json('{"phase": "failed", "why": "an alarm"}').was_away


@pytest.mark.parametrize("before", [(), (AWAY,)], ids=["not tried", "away"])
def test_a_second_stop_does_not_keep_a_job_from_being_cancelled(
    before: tuple[e.Answer, ...],
) -> None:
    record = told(step(until("watch_job"), e.Stop("ann"), NOW).record, *before)
    with pytest.raises(Conflict, match="ends already"):
        step(record, e.Stop("ann"), NOW)


def test_an_alarm_after_the_rollout_says_that_devices_keep_the_version() -> None:
    record = told(begun(), *THROUGH)
    ended = told(record, e.RolloutSeen(RolloutStatus.SUCCEEDED, alarms=(ALARM,)))
    assert ended.cycle.phase is Phase.FAILED
    assert "keep it" in ended.cycle.why


def test_who_is_asked_before_the_watch_does_not_miss_that_the_rollout_went_back() -> None:
    record = begun(asks=frozenset({Arrow.WATCH}))
    record = told(record, *THROUGH)
    assert record.cycle.asks is Arrow.WATCH
    ended = told(record, e.RolloutSeen(RolloutStatus.ROLLED_BACK, why="silent"))
    assert ended.cycle.phase is Phase.FAILED


@pytest.mark.parametrize(
    "kind", ["count", "build", "choose", "submit", "watch_job", "evaluate", "watch_evaluation",
             "approve", "release", "roll", "watch_rollout"],
)  # fmt: skip
def test_a_person_can_stop_it_at_each_step(kind: str) -> None:
    record = step(until(kind), e.Stop("ann", "not today"), NOW).record
    if kind in {"submit", "watch_job", "evaluate", "watch_evaluation"}:
        assert record.doing == c.CancelJob(key="fashion-edge-7", why="stopped by ann: not today")
        record = told(record, e.CleanedUp("job finetune-1 is cancelled"))
    assert record.cycle.phase is Phase.STOPPED
    assert record.cycle.why.startswith("stopped by ann: not today")
    with pytest.raises(Conflict, match="over"):
        step(record, e.Stop("ann"), NOW)


@pytest.mark.parametrize("kind", ["evaluate", "watch_evaluation", "approve", "release"])
def test_a_stop_says_that_the_version_stays_in_the_registry(kind: str) -> None:
    record = step(until(kind), e.Stop("ann", "not today"), NOW).record
    if record.ending is not None:
        record = told(record, e.CleanedUp("job finetune-1 was done before"))
    assert record.cycle.phase is Phase.STOPPED
    assert "stays in the registry" in record.cycle.why


def test_a_stop_while_it_is_released_does_not_say_that_it_is_no_release() -> None:
    record = step(until("release"), e.Stop("ann", "not today"), NOW).record
    assert "released where that was done already" in record.cycle.why


def test_what_is_away_is_said_and_the_same_done_again() -> None:
    record = told(until("evaluate"), e.Away("the registry cannot be reached"))
    assert record.doing == until("evaluate").doing
    assert record.cycle.waits_for == "the registry cannot be reached"


def test_what_is_refused_ends_the_cycle_in_words() -> None:
    record = told(until("build"), e.Refused("one class only: 3"))
    assert (record.cycle.phase, record.cycle.why) == (Phase.FAILED, "one class only: 3")


def test_names_of_cycles_fit_what_they_name() -> None:
    assert cycle_id("m" * 64, 12) == "m" * 61 + "-12"
    assert cycle_id("fashion-edge", 3) == "fashion-edge-3"
