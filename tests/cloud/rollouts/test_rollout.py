"""Whole rollouts: good versions reach all, bad ones are stopped in the canary and undone."""

import json

import pytest

from cloud.rollouts.documents import Phase, RolloutStatus
from cloud.rollouts.events import Reported, Restore, Ticked
from cloud.rollouts.machine import Rollout
from shared.errors import Conflict, Malformed
from shared.fleet.reported import DevicePhase
from tests.cloud.rollouts.acting import NEW, OLD, Model, Stage, spec, targets

HOURS = 3600.0


def test_a_good_version_reaches_all_and_becomes_the_baseline():
    stage = Stage(20, shadow_s=3600)
    stage.tell("start")
    stage.play(6 * HOURS, stage.ended)
    view = stage.rollout.view(stage.now)
    assert view.status is RolloutStatus.SUCCEEDED
    assert view.phases == {"done": 20}
    assert stage.baseline
    assert {one.version for one in stage.actors.values()} == {NEW}
    assert [one.kind for one in view.stages] == ["shadow", "canary", "wave", "wave", "watch"]
    assert all(one.ended_at is not None for one in view.stages)


@pytest.mark.parametrize(
    ("model", "criterion"),
    [
        (Model(losses=0.06), "accuracy_loss"),
        (Model(ends=DevicePhase.REJECTED, golden=True), "install_failures"),
        (Model(ends=DevicePhase.ROLLED_BACK), "install_failures"),
        (Model(failed=1.0), "inference_failures"),
        (Model(latency_bin=17), "p95_latency_ms"),
        (Model(escalation=0.3), "escalation_rate"),
        (Model(disagreement=0.2), "disagreement"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_bad_version_is_stopped_in_the_canary_and_goes_back_by_itself(
    model: Model, criterion: str
):
    stage = Stage(20, model=model, shadow_s=3600 if criterion == "accuracy_loss" else 0)
    stage.tell("start")
    stage.play(3 * HOURS, stage.ended)
    view = stage.rollout.view(stage.now)
    assert view.status is RolloutStatus.ROLLED_BACK, view.why
    assert criterion in view.why
    assert set(stage.orders) <= set(stage.in_order()[:2])
    assert {one.version for one in stage.actors.values()} == {OLD}
    assert not stage.baseline


def test_stored_and_restored_after_every_step_it_goes_the_same_way():
    for changes in ({}, {"shadow_s": 3600.0}, {"model": Model(escalation=0.3)}):
        plain, restored = Stage(5, **changes), Stage(5, restores=True, **changes)
        for stage in (plain, restored):
            stage.tell("start")
            stage.play(HOURS / 2, stage.ended)
        assert restored.log == plain.log
        assert restored.rollout.to_record() == plain.rollout.to_record()
        assert restored.rollout.view(plain.now) == plain.rollout.view(plain.now)


def test_no_order_reaches_beyond_the_open_stage():
    stage = Stage(20)
    stage.tell("start")
    order = stage.in_order()
    for _ in range(40):
        stage.play(30)
        view = stage.rollout.view(stage.now)
        open_ones = {"canary": 2, "wave": 10 if view.stage == 1 else 20, "watch": 20}
        reach = open_ones[view.stages[view.stage].kind]
        assert set(stage.orders) <= set(order[:reach])


@pytest.mark.parametrize("model", [Model(), Model(failed=1.0)], ids=["good", "bad"])
def test_a_stage_counts_every_device_that_was_ordered(model: Model):
    """Done, under way, failed or left: who waits for its order is what remains."""
    stage = Stage(4, canary=1.0, waves=(1.0,), model=model)
    stage.tell("start")
    for _ in range(12):
        for actor in stage.actors.values():
            stage.act(actor)
            view = stage.rollout.view(stage.now)
            shown = view.stages[0]
            counted = shown.done + shown.in_flight + shown.failed + shown.left
            assert shown.devices - counted == view.phases.get("queued", 0), view.phases
        stage.play(30)


def test_success_is_never_recorded_while_the_old_version_runs():
    """It says committed, and names the new version, but another manifest."""
    stage = Stage(4, canary=0.5)
    stage.tell("start")
    stage.step(Ticked())
    liar = stage.actors[stage.in_order()[0]]
    lie = liar.report(DevicePhase.COMMITTED, version=NEW, manifest_sha256="c" * 64)
    stage.step(Reported(liar.name, lie))
    found = stage.rollout.device(liar.name)
    assert found is not None
    assert found.phase is Phase.FAILED
    assert "says cam 2.0.0, runs cccc" in found.why


def test_a_criterion_without_data_neither_opens_nor_stops_but_asks_a_person():
    stage = Stage(10, criteria=("disagreement <= control + 0.02",))
    for actor in stage.actors.values():
        actor.audits = 0.0
    stage.tell("start")
    stage.play(4 * HOURS, lambda: stage.status is not RolloutStatus.RUNNING)
    view = stage.rollout.view(stage.now)
    assert view.status is RolloutStatus.PAUSED
    assert "disagreement <= control + 0.02: no data" in view.why
    assert "a person decides" in view.why
    assert view.stage == 0
    stage.tell("skip")
    stage.play(60)
    assert stage.rollout.view(stage.now).stage == 1


@pytest.mark.parametrize("held", [False, True])
def test_what_was_missing_lets_it_go_on_unless_somebody_holds_it(held: bool):
    stage = Stage(10, criteria=("disagreement <= control + 0.02",))
    for actor in stage.actors.values():
        actor.audits = 0.0
    stage.tell("start")
    stage.play(4 * HOURS, lambda: stage.status is not RolloutStatus.RUNNING)
    assert stage.status is RolloutStatus.PAUSED
    if held:
        stage.tell("pause")
    for actor in stage.actors.values():
        actor.audits = 0.3
    stage.play(HOURS)
    assert (stage.status is RolloutStatus.PAUSED) == held
    assert (stage.rollout.view(stage.now).stage == 0) == held
    assert any("goes_on" in line for line in stage.log) != held


def test_a_violated_criterion_cannot_be_skipped():
    stage = Stage(20, model=Model(escalation=0.3), on_bad="pause")
    stage.tell("start")
    stage.play(2 * HOURS, lambda: stage.status is RolloutStatus.PAUSED)
    assert "escalation_rate" in stage.rollout.view(stage.now).why
    with pytest.raises(Conflict, match="a failure cannot"):
        stage.tell("skip")
    stage.tell("undo")
    stage.play(600, stage.ended)
    assert stage.status is RolloutStatus.ROLLED_BACK


def test_a_stage_that_needs_approval_waits_for_it():
    stage = Stage(10, approvals=("wave",))
    stage.tell("start")
    with pytest.raises(Conflict, match="waits for no approval"):
        stage.tell("approve")
    stage.play(2 * HOURS, lambda: stage.rollout.view(stage.now).waiting_for_approval)
    assert len(set(stage.orders)) == 1
    stage.play(HOURS)
    assert len(set(stage.orders)) == 1
    stage.tell("approve")
    stage.play(60)
    assert len(set(stage.orders)) == 5
    assert not stage.rollout.view(stage.now).waiting_for_approval
    stage.play(2 * HOURS, lambda: stage.rollout.view(stage.now).waiting_for_approval)
    assert stage.rollout.view(stage.now).stage == 1, "each wave needs one of its own"


def test_a_pause_stops_orders_and_nothing_else():
    stage = Stage(10, in_flight_max=1, canary=0.5)
    stage.tell("start")
    stage.step(Ticked())
    assert len(stage.orders) == 1
    stage.tell("pause")
    stage.play(600)
    assert len(stage.orders) == 1
    assert stage.phase(stage.orders[0]) is Phase.DONE
    stage.tell("resume")
    stage.play(60)
    assert len(stage.orders) == 3


def test_in_flight_max_bounds_who_installs_at_once():
    stage = Stage(20, canary=1.0, waves=(1.0,), in_flight_max=3)
    stage.tell("start")
    stage.step(Ticked())
    assert len(stage.orders) == 3
    stage.step(Ticked())
    assert len(stage.orders) == 3


def test_abort_leaves_devices_as_they_are_and_takes_back_what_was_not_taken():
    stage = Stage(10, canary=0.5)
    stage.tell("start")
    stage.play(120)
    absent = stage.in_order()[5]
    taken = set(stage.orders)
    changes = stage.tell("abort")
    assert stage.status is RolloutStatus.ABORTED
    assert not [one for one in changes.commands if isinstance(one, Restore)]
    assert all(stage.rollout.holds(one) for one in taken)
    assert not stage.rollout.holds(absent)
    stage.tell("undo")
    stage.play(300, stage.ended)
    assert stage.status is RolloutStatus.ROLLED_BACK
    assert {one.version for one in stage.actors.values()} == {OLD}
    assert not any(stage.rollout.holds(one) for one in taken)


def test_retry_raises_the_attempt_of_the_failed_ones_only():
    stage = Stage(10, canary=0.5, criteria=("install_failures <= 0.9",))
    broken = stage.in_order()[1]
    stage.tell("start")
    with pytest.raises(Conflict, match="no device has failed"):
        stage.tell("retry")
    stage.step(Ticked())
    actor = stage.actors[broken]
    actor.stage = ""
    stage.step(Reported(broken, actor.report(DevicePhase.REJECTED, why="too slow")))
    stage.play(120)
    assert stage.phase(broken) is Phase.REJECTED
    late = actor.report(DevicePhase.COMMITTED, version=NEW, manifest_sha256="b" * 64)
    stage.step(Reported(broken, late))
    assert stage.phase(broken) is Phase.REJECTED, "an end never reopens within an attempt"
    actor.swap(OLD)
    stage.tell("retry")
    stage.step(Ticked())
    found = stage.rollout.device(broken)
    assert found is not None
    assert (found.phase, found.attempt) == (Phase.ORDERED, 2)
    assert [one.attempt for one in stage.rollout.devices()].count(2) == 1
    stage.play(300)
    assert stage.phase(broken) is Phase.DONE


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"waves": (0.5, 0.2, 1.0)}, "shares are cumulative"),
        ({"waves": (0.2, 0.5)}, "the last is 1"),
        ({"canary": 0.0}, "canary"),
        ({"criteria": ("silent <= a",)}, "position"),
        ({"window": ("01:00-01:00",)}, "is empty"),
        ({"silence_s": 9000.0, "device_timeout_s": 300.0}, "no device could ever be silent"),
        ({"approvals": ("shadow",)}, "no shadow stage"),
    ],
)
def test_a_specification_that_contradicts_itself_is_refused(changes: dict, words: str):
    with pytest.raises(Malformed, match=words):
        Rollout.plan_new("r", spec(**changes), targets(3), "ann", 0.0)


def test_a_rollout_to_nobody_or_to_one_device_twice_is_refused():
    with pytest.raises(Conflict, match="no device of group all"):
        Rollout.plan_new("r", spec(selector="site=mars"), [], "ann", 0.0)
    with pytest.raises(Malformed, match="named twice"):
        Rollout.plan_new("r", spec(), [*targets(2), *targets(1)], "ann", 0.0)


def test_commands_that_make_no_sense_are_refused_in_words():
    stage = Stage(3)
    for what in ("pause", "resume", "approve", "skip", "undo", "retry"):
        with pytest.raises(Conflict, match=f"is draft; {what} needs it"):
            stage.tell(what)
    stage.tell("start")
    for what in ("start", "resume"):
        with pytest.raises(Conflict, match="is running"):
            stage.tell(what)


def test_a_record_of_a_newer_program_is_refused():
    rollout = Stage(1).rollout
    head = json.loads(rollout.to_record()) | {"format": 9}
    with pytest.raises(Malformed, match="format 9"):
        Rollout.from_record(json.dumps(head).encode(), [])
