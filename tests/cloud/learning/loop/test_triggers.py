"""What begins a cycle, and what does not."""

import pytest

from cloud.learning.documents import Cycle, Phase, TriggerKind, Triggers
from cloud.learning.loop.numbers import next_version
from cloud.learning.loop.triggers import Facts, Trigger, next_at, triggered
from cloud.monitoring.drift.documents import Accuracy, Alarm, Cause, Kind, Scope
from tests.cloud.learning.loop.cycles import settings

NOW = 1_000_000.0


def alarm(**changes: object) -> Alarm:
    base: dict[str, object] = {
        "id": "a-1", "kind": Kind.INPUT, "cause": Cause.SCENE, "words": "darker", "runbook": "look",
        "scope": Scope(kind="group", name="lyon", model="fashion-edge", version="1.0.0"),
        "command": "hybridge", "opened_at": NOW - 50,
    }  # fmt: skip
    return Alarm.model_validate(base | changes)


def last(
    phase: Phase = Phase.DONE, begun_at: float = NOW - 8000, ended_at: float = NOW - 7000
) -> Cycle:
    return Cycle(
        id="fashion-edge-1", model="fashion-edge", trigger=TriggerKind.TIME, trigger_words="",
        phase=phase, begun_at=begun_at, since=ended_at, ended_at=ended_at,
    )  # fmt: skip


def found(
    facts: Facts, before: Cycle | None = None, now: float = NOW, **changes: object
) -> Trigger | None:
    return triggered(settings(**changes), facts, before, made_at=NOW - 10_000, now=now)


def test_an_alarm_on_its_group_or_the_fleet_begins_one() -> None:
    trigger = found(Facts(0, (alarm(),)))
    assert trigger == Trigger(TriggerKind.DRIFT, "alarm a-1: darker")
    scope = Scope(kind="fleet", name="", model="fashion-edge", version="1.0.0")
    assert found(Facts(0, (alarm(scope=scope),)), group="paris") is not None


@pytest.mark.parametrize(
    "other",
    [
        alarm(closed_at=NOW - 1),
        alarm(kind=Kind.STALE),
        alarm(kind=Kind.MISSING),
        alarm(scope=Scope(kind="device", name="camera-1", model="fashion-edge", version="1.0.0")),
        alarm(scope=Scope(kind="group", name="lyon", model="other", version="1.0.0")),
        alarm(scope=Scope(kind="group", name="paris", model="fashion-edge", version="1.0.0")),
    ],
    ids=["closed", "stale", "missing", "one device", "another model", "another group"],
)
def test_other_alarms_do_not(other: Alarm) -> None:
    assert found(Facts(0, (other,)), group="lyon") is None


def test_an_alarm_that_was_learned_from_does_not_begin_another() -> None:
    before = last(begun_at=NOW - 8000)
    assert found(Facts(0, (alarm(opened_at=NOW - 9000),)), before) is None
    assert found(Facts(0, (alarm(opened_at=NOW - 5000),)), before) is not None


def test_an_alarm_whose_cycle_failed_begins_another() -> None:
    assert found(Facts(0, (alarm(opened_at=NOW - 9000),)), last(Phase.FAILED)) is not None


def test_after_a_cycle_there_is_a_pause() -> None:
    before = last(ended_at=NOW - 3599)
    assert next_at(settings(), before) == NOW + 1
    assert found(Facts(0, (alarm(),)), before) is None
    assert found(Facts(0, (alarm(),)), before, now=NOW + 1) is not None


def test_a_loop_that_is_off_begins_nothing() -> None:
    assert found(Facts(0, (alarm(),)), enabled=False) is None


def test_enough_new_samples_begin_one() -> None:
    triggers = Triggers(samples=500)
    assert found(Facts(499), triggers=triggers) is None
    trigger = found(Facts(500), triggers=triggers)
    assert trigger == Trigger(TriggerKind.SAMPLES, "500 samples since the last cycle")


def test_an_accuracy_that_is_surely_too_low_begins_one() -> None:
    def seen(high: float) -> Facts:
        return Facts(0, (), Accuracy(estimate=0.7, low=0.6, high=high, audits=90, samples=500))

    triggers = Triggers(accuracy_below=0.85)
    assert found(seen(0.86), triggers=triggers) is None
    trigger = found(seen(0.80), triggers=triggers)
    assert trigger is not None
    assert trigger.kind is TriggerKind.ACCURACY


def test_time_begins_one_counted_from_the_last_or_from_the_loops_making() -> None:
    triggers = Triggers(every_s=10_000)
    assert found(Facts(0), triggers=triggers) is not None
    assert found(Facts(0), last(begun_at=NOW - 9999), triggers=triggers) is None
    assert found(Facts(0), last(begun_at=NOW - 10_000), triggers=triggers) is not None


@pytest.mark.parametrize("phase", [Phase.FAILED, Phase.REFUSED, Phase.STOPPED])
def test_one_that_led_to_nothing_is_not_begun_again_at_once(phase: Phase) -> None:
    triggers, alarms = Triggers(pause_s=0), Facts(0, (alarm(),))
    assert found(alarms, last(phase, ended_at=NOW - 299), triggers=triggers) is None
    assert found(alarms, last(phase, ended_at=NOW - 300), triggers=triggers) is not None


def test_versions_count_on_from_the_current_one_past_those_that_are_taken() -> None:
    assert next_version("1.0.0", ["1.0.0"]) == "1.0.1"
    assert next_version("1.0.0", ["1.0.0", "1.0.1", "1.0.2", "2.0.3"]) == "1.0.3"
    with pytest.raises(OverflowError):
        next_version("1.0.999999", [])
