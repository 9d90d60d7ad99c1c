"""A region's clock that is set forward or back, and a region that was away: time that nobody watched."""

import pytest

from cloud.rollouts.documents import Phase, RolloutStatus
from cloud.rollouts.events import Order, Removed, Reported, Returned, Ticked
from cloud.rollouts.machine import Rollout
from shared.fleet.reported import DevicePhase
from tests.cloud.rollouts.acting import OLD, Stage

LAX = ("silent <= 0.9", "install_failures <= 0.9")
DAY, YEAR = 86_400.0, 366 * 86_400.0


def started(**changes: object) -> Stage:
    stage = Stage(10, **{"canary": 1.0, "waves": (1.0,), "criteria": LAX, "wave_s": 60.0} | changes)
    stage.tell("start")
    stage.step(Ticked())
    return stage


def watching(**changes: object) -> Stage:
    stage = started(**{"watch_s": 3600.0} | changes)
    stage.play(1800, lambda: kind(stage) == "watch")
    assert kind(stage) == "watch"
    return stage


def kind(stage: Stage) -> str:
    view = stage.rollout.view(stage.now)
    return view.stages[view.stage].kind


def restored(stage: Stage) -> Rollout:
    devices = [stage.rollout.device_record(one) for one in stage.in_order()]
    return Rollout.from_record(stage.rollout.to_record(), devices)


@pytest.mark.parametrize("away_s", [3 * DAY, YEAR])
def test_what_nobody_watched_is_no_watch(away_s: float):
    stage = watching()
    stage.rollout = restored(stage)
    stage.now += away_s
    stage.step(Ticked())
    assert stage.status is RolloutStatus.RUNNING
    stage.play(3000)
    assert stage.status is RolloutStatus.RUNNING
    stage.play(900)
    assert stage.status is RolloutStatus.SUCCEEDED


def test_a_wave_gathers_evidence_while_somebody_listens():
    stage = started(wave_s=3600.0)
    stage.play(600)
    assert {stage.phase(one) for one in stage.in_order()} == {Phase.DONE}
    stage.now += DAY
    stage.step(Ticked())
    assert stage.rollout.view(stage.now).stage == 0
    assert "time to gather evidence" in stage.rollout.view(stage.now).stages[0].waits_for
    stage.play(3600)
    assert stage.rollout.view(stage.now).stage == 1


@pytest.mark.parametrize("by", [3600.0, YEAR])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_clock_that_is_set_forward_and_back_costs_nothing(by: float, restarts: bool):
    stage = watching()
    stage.play(600)
    stage.now += by
    stage.play(60)
    if restarts:
        stage.rollout = restored(stage)
    stage.now -= by
    stage.play(60)
    assert stage.status is RolloutStatus.RUNNING
    assert {stage.phase(one) for one in stage.in_order()} == {Phase.DONE}
    stage.play(3700)
    assert stage.status is RolloutStatus.SUCCEEDED


@pytest.mark.parametrize("by", [3600.0, YEAR])
def test_a_clock_that_is_set_back_is_followed(by: float):
    stage = started(silence_s=900.0, start_timeout_s=1800.0)
    away, quiet = stage.in_order()[:2]
    stage.actors[away].deaf = True
    stage.play(120)
    stage.now -= by
    stage.actors[quiet].deaf = True
    stage.play(870)
    assert stage.phase(quiet) is Phase.DONE
    stage.play(120)
    assert stage.phase(quiet) is Phase.SILENT, "deadlines are not a year away"
    stage.play(1000)
    assert stage.phase(away) is Phase.LEFT


def test_samples_count_after_the_clock_was_set_back():
    stage = started(wave_s=36_000.0)
    stage.play(300)
    for actor in stage.actors.values():
        actor.rate = 20_000.0
    stage.now -= YEAR
    stage.step(Ticked())
    stage.play(300)
    assert not any("distrusted" in line for line in stage.log)


def test_a_device_whose_disk_was_made_anew_is_believed_again():
    stage = watching()
    first = stage.in_order()[0]
    actor = stage.actors[first]
    actor.sequence = 0
    actor.swap(OLD)
    anew = actor.report(DevicePhase.COMMITTED, rollout=None, at=stage.now)
    stage.step(Reported(first, anew))
    assert stage.phase(first) is Phase.ROLLED_BACK
    changes = stage.step(Reported(first, anew))
    assert not changes.commands, "a copy changes nothing"
    assert stage.phase(first) is Phase.ROLLED_BACK


def test_a_device_that_returns_waits_for_its_window_and_for_the_rollout():
    stage = started(window=("01:00-02:00",))
    stage.now = DAY * 20 + 3600
    stage.step(Ticked())
    first = stage.in_order()[0]
    stage.step(Removed(first, "quarantined"))
    stage.now += 7200
    assert not stage.step(Returned(first)).commands, "its window is closed"
    stage.now += DAY - 7200
    stage.step(Ticked())
    assert stage.phase(first) is Phase.ORDERED
    stage.step(Removed(first, "quarantined"))
    stage.tell("pause")
    assert not stage.step(Returned(first)).commands
    changes = stage.tell("resume"), stage.step(Ticked())
    assert Order(first, "live", 1) in [*changes[0].commands, *changes[1].commands]


def test_a_quiet_device_that_left_holds_up_no_stage_when_it_comes_and_goes():
    stage = started(canary=0.5, device_timeout_s=1800.0, done_samples=500, samples_min=10)
    quiet = stage.in_order()[0]
    for actor in stage.actors.values():
        actor.rate = 2.0 if actor.name == quiet else 1000.0
    stage.actors[quiet].stage = "wait"
    stage.play(60)
    stage.actors[quiet].stage = "live"
    stage.play(1900)
    assert stage.phase(quiet) is Phase.LEFT
    stage.came(quiet)
    assert stage.phase(quiet) is not Phase.ORDERED, "it runs it"


@pytest.mark.parametrize("silence_s", [1.0, 20.0])
def test_a_short_silence_makes_no_tick_a_gap(silence_s: float):
    """Ticks, and reports, are further apart here than a quarter of it, and than all of it."""
    stage = started(silence_s=silence_s, device_timeout_s=3600.0, criteria=(), watch_s=300.0)
    stage.play(900, stage.ended)
    assert stage.status is RolloutStatus.SUCCEEDED


def test_undone_says_who_did_not_say_so():
    stage = started(device_timeout_s=1800.0)
    stage.play(120)
    first = stage.in_order()[0]
    stage.actors[first].deaf = True
    stage.tell("undo")
    stage.play(3600, stage.ended)
    line = next(one for one in stage.log if "'rolled_back'" in one)
    assert "all but 1 devices" in line
