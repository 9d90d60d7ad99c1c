"""Devices that do not start, do not finish, fall silent, come back; and a region that was away."""

import pytest

from cloud.rollouts.documents import Phase, RolloutStatus
from cloud.rollouts.events import Came, Order, Removed, Reported, Restore, Returned, Ticked, Went
from cloud.rollouts.machine import Rollout
from cloud.rollouts.reports import RELAPSES_MAX
from shared.fleet.reported import DevicePhase
from tests.cloud.rollouts.acting import NEW, OLD, SHA, Stage

LAX = ("silent <= 0.9", "install_failures <= 0.9")


def started(count: int = 10, **changes: object) -> Stage:
    defaults = {"canary": 0.5, "criteria": LAX, "silence_s": 900.0, "wave_s": 36_000.0}
    stage = Stage(count, **defaults | changes)
    stage.tell("start")
    stage.step(Ticked())
    return stage


def test_a_device_that_never_takes_its_order_leaves_and_stays_eligible():
    stage = started(start_timeout_s=600)
    first = stage.in_order()[0]
    stage.actors[first].deaf = True
    stage.play(1200)
    found = stage.rollout.device(first)
    assert found is not None
    assert found.phase is Phase.LEFT
    assert "did not take its order" in found.why
    assert stage.rollout.view(stage.now).stages[0].left == 1
    assert stage.rollout.holds(first), "its order is still out"
    changes = stage.came(first)
    assert Order(first, "live", 1) in changes.commands
    stage.actors[first].deaf = False
    stage.play(300)
    assert stage.phase(first) is Phase.DONE


def test_a_device_that_does_not_finish_has_timed_out():
    stage = started(device_timeout_s=1800)
    first = stage.in_order()[0]
    actor = stage.actors[first]
    actor.stage = ""
    stage.step(Reported(first, actor.report(DevicePhase.DOWNLOADING)))
    stage.play(1700)
    assert stage.phase(first) is Phase.DOWNLOADING
    stage.play(200)
    assert stage.phase(first) is Phase.TIMED_OUT


def test_a_silent_device_has_failed_until_it_is_heard_again_on_the_new_version():
    stage = started()
    first = stage.in_order()[0]
    stage.play(300)
    assert stage.phase(first) is Phase.DONE
    stage.actors[first].deaf = True
    stage.play(870)
    assert stage.phase(first) is Phase.DONE
    stage.play(90)
    assert stage.phase(first) is Phase.SILENT
    stage.step(Came(first))
    assert stage.phase(first) is Phase.SILENT, "to be there is not to answer"
    stage.actors[first].deaf = False
    stage.play(60)
    assert stage.phase(first) is Phase.DONE


def test_a_device_that_is_silent_again_and_again_stays_silent():
    stage = started()
    actor = stage.actors[stage.in_order()[0]]
    stage.play(300)
    for time in range(5):
        actor.deaf = True
        stage.play(1000)
        assert stage.phase(actor.name) is Phase.SILENT
        actor.deaf = False
        stage.play(60)
        assert (stage.phase(actor.name) is Phase.DONE) == (time < 3)


def test_silence_of_the_region_itself_is_nobodys_fault():
    stage = started()
    stage.play(300)
    record = stage.rollout.to_record()
    devices = [stage.rollout.device_record(one) for one in stage.in_order()]
    stage.rollout = Rollout.from_record(record, devices)
    stage.now += 86_400
    stage.step(Ticked())
    assert Phase.SILENT not in {one.phase for one in stage.rollout.devices()}
    stage.play(1000)
    assert {stage.phase(one) for one in stage.in_order()[:5]} == {Phase.DONE}


def test_when_nobody_at_all_is_heard_the_link_is_asked_first_but_not_for_ever():
    stage = started(device_timeout_s=7200.0)
    stage.play(300)
    for actor in stage.actors.values():
        actor.deaf = True
    stage.play(2 * 900)
    assert Phase.SILENT not in {one.phase for one in stage.rollout.devices()}
    stage.play(7200)
    assert {stage.phase(one) for one in stage.in_order()[:5]} == {Phase.SILENT}


def test_a_link_that_comes_back_gives_everybody_time():
    stage = started()
    stage.play(300)
    for actor in stage.actors.values():
        actor.deaf = True
    stage.play(3600)
    for name in stage.in_order()[5:]:
        stage.actors[name].deaf = False
    stage.play(870)
    assert Phase.SILENT not in {one.phase for one in stage.rollout.devices()}
    stage.play(120)
    assert {stage.phase(one) for one in stage.in_order()[:5]} == {Phase.SILENT}


def test_what_silences_the_control_too_is_not_the_version_s_fault():
    stage = started(20, criteria=("silent <= 0.05",), canary=0.5)
    stage.play(300)
    order = stage.in_order()
    for name in (*order[:5], *order[10:15]):
        stage.actors[name].deaf = True
    stage.play(2000)
    assert [stage.phase(one) for one in order].count(Phase.SILENT) == 5
    assert stage.status is RolloutStatus.RUNNING
    only = started(20, criteria=("silent <= 0.05",), canary=0.5)
    only.play(300)
    for name in order[:5]:
        only.actors[name].deaf = True
    only.play(2000)
    assert only.rollout.undoing
    assert "silent" in only.rollout.view(only.now).why


def test_a_quiet_device_leaves_and_one_that_hangs_has_timed_out():
    stage = started(device_timeout_s=1800.0, done_samples=500)
    quiet, hangs = stage.in_order()[:2]
    for actor in stage.actors.values():
        actor.rate = 2.0 if actor.name == quiet else 1000.0
    stage.actors[quiet].stage = stage.actors[hangs].stage = "wait"
    stage.play(60)
    stage.actors[quiet].stage = stage.actors[hangs].stage = "live"
    stage.actors[hangs].rate = 1000.0
    stage.play(30)
    stage.actors[hangs].rate = 0.0
    stage.actors[hangs].counts = {}
    stage.play(2100)
    found = stage.rollout.device(quiet)
    assert found is not None
    assert found.phase is Phase.LEFT
    assert "and no more before" in found.why


@pytest.mark.parametrize("committed", [True, False])
def test_a_removed_device_leaves_and_is_ordered_again_when_it_returns(committed: bool):
    stage = started()
    first = stage.in_order()[0]
    if committed:
        stage.play(60)
    stage.step(Removed(first, "quarantined: it flaps"))
    assert stage.phase(first) is Phase.LEFT
    assert not stage.rollout.holds(first)
    assert not stage.came(first).commands, "it is not eligible while it is removed"
    assert Order(first, "live", 1) in stage.step(Returned(first)).commands
    assert stage.phase(first) is (Phase.COMMITTED if committed else Phase.ORDERED)


def test_who_failed_and_is_removed_has_failed_all_the_same():
    stage = started()
    first = stage.in_order()[0]
    stage.step(Reported(first, stage.actors[first].report(DevicePhase.REJECTED)))
    stage.step(Removed(first, "quarantined"))
    assert stage.phase(first) is Phase.REJECTED
    assert not stage.step(Returned(first)).commands
    assert stage.phase(first) is Phase.REJECTED


def test_an_order_waits_for_the_device_s_own_window():
    stage = started(window=("01:00-02:00",))
    assert not stage.orders
    stage.now = 86_400.0 * 20 + 1800
    stage.step(Ticked())
    assert not stage.orders
    stage.now += 1800
    stage.step(Ticked())
    assert len(stage.orders) == 5


def test_undoing_does_not_wait_for_a_window():
    stage = started(window=("01:00-02:00",))
    stage.now = 86_400.0 * 20 + 3600
    stage.step(Ticked())
    stage.play(120)
    stage.now += 7200
    changes = stage.tell("undo")
    assert len([one for one in changes.commands if isinstance(one, Restore)]) == 5


def test_a_device_that_never_took_its_order_is_ordered_back_too():
    stage = started(start_timeout_s=600)
    away = stage.in_order()[0]
    stage.actors[away].deaf = True
    stage.play(1200)
    assert Restore(away, undo=False) in stage.tell("undo").commands
    stage.play(60, stage.ended)
    assert stage.status is RolloutStatus.ROLLED_BACK


def test_who_took_it_after_all_while_others_go_back_goes_back_too():
    stage = started()
    late = stage.in_order()[0]
    stage.actors[late].deaf = True
    stage.play(120)
    stage.tell("undo")
    assert stage.phase(late) is Phase.LEFT
    actor = stage.actors[late]
    new = {"version": NEW, "manifest_sha256": SHA[NEW]}
    changes = stage.step(Reported(late, actor.report(DevicePhase.COMMITTED, **new)))
    assert Restore(late, undo=True) in changes.commands
    assert stage.phase(late) is Phase.UNDOING
    actor.deaf = False
    stage.play(120, stage.ended)
    assert stage.phase(late) is Phase.UNDONE
    assert stage.status is RolloutStatus.ROLLED_BACK


def test_who_does_not_say_that_it_is_back_is_named():
    stage = started(device_timeout_s=1800.0)
    stage.play(120)
    first = stage.in_order()[0]
    stage.actors[first].deaf = True
    stage.tell("undo")
    stage.play(3600, stage.ended)
    assert stage.phase(first) is Phase.TIMED_OUT
    assert stage.status is RolloutStatus.ROLLED_BACK
    assert any("not_undone" in line and first in line for line in stage.log)


def test_a_fallback_after_it_was_done_is_a_failure():
    stage = started()
    first = stage.in_order()[0]
    stage.play(300)
    assert stage.phase(first) is Phase.DONE
    actor = stage.actors[first]
    actor.swap(OLD)
    stage.step(Reported(first, actor.report(DevicePhase.ROLLED_BACK, why="crashed three times")))
    found = stage.rollout.device(first)
    assert found is not None
    assert found.phase is Phase.ROLLED_BACK
    assert "runs 1.0.0 again" in found.why


def test_a_report_that_comes_late_or_of_another_attempt_changes_nothing():
    stage = started()
    first = stage.in_order()[0]
    actor = stage.actors[first]
    early = actor.report(DevicePhase.REJECTED)
    stage.step(Reported(first, actor.report(DevicePhase.DOWNLOADING)))
    stage.step(Reported(first, early))
    assert stage.phase(first) is Phase.DOWNLOADING
    stage.step(Reported(first, actor.report(DevicePhase.REJECTED)))
    stage.tell("retry")
    stage.step(Ticked())
    assert stage.phase(first) is Phase.ORDERED
    stage.step(Reported(first, actor.report(DevicePhase.REJECTED, attempt=1)))
    stage.step(Reported(first, actor.report(DevicePhase.REJECTED, attempt=2, rollout="r0")))
    assert stage.phase(first) is Phase.ORDERED
    stage.step(Reported(first, actor.report(DevicePhase.ACCEPTED, attempt=2)))
    assert stage.phase(first) is Phase.ACCEPTED


def test_a_stage_ends_when_its_last_device_has_and_not_before():
    stage = started(wave_s=60.0)
    last = stage.in_order()[4]
    stage.actors[last].stage = ""
    stage.step(Reported(last, stage.actors[last].report(DevicePhase.DOWNLOADING)))
    stage.play(3600)
    view = stage.rollout.view(stage.now)
    assert view.stage == 0
    assert view.stages[0].waits_for == "1 devices that are under way: 1 downloading"
    stage.actors[last].stage = "live"
    stage.play(120)
    assert stage.rollout.view(stage.now).stage == 1


def test_a_stage_ends_with_enough_samples_and_not_before():
    stage = started(wave_s=60.0, samples_min=100_000)
    stage.play(600)
    view = stage.rollout.view(stage.now)
    assert view.stage == 0
    assert "samples on the new version" in view.stages[0].waits_for


def test_who_is_away_takes_no_place_of_those_that_install():
    stage = Stage(10, canary=1.0, waves=(1.0,), in_flight_max=2, criteria=LAX)
    away = stage.in_order()[:2]
    stage.tell("start")
    for name in away:
        stage.actors[name].deaf = True
    stage.step(Ticked())
    assert stage.orders == away
    for name in away:
        stage.step(Went(name))
    stage.play(300)
    assert len(stage.orders) == 10


def test_devices_that_take_turns_do_not_keep_an_undo_from_its_end():
    stage = Stage(10, canary=0.4)
    stage.tell("start")
    stage.play(600)
    stage.tell("undo")
    liars = stage.in_order()[:2]
    for name in liars:
        stage.actors[name].deaf = True
    for turn in range(4 * RELAPSES_MAX):
        stage.play(1200)
        for name, coming in ((liars[turn % 2], NEW), (liars[1 - turn % 2], None)):
            phase = DevicePhase.DOWNLOADING if coming else DevicePhase.COMMITTED
            stage.step(Reported(name, stage.actors[name].report(phase, version=OLD,
                       manifest_sha256=SHA[OLD], candidate=coming)))  # fmt: skip
    assert stage.status is RolloutStatus.ROLLED_BACK
