"""Each checker sees what it is for: the fault is made by hand, in parts that are otherwise real."""

from dataclasses import replace
from types import MappingProxyType

import pytest

from cloud.rollouts.documents import Phase
from cloud.rollouts.events import Changes, Order, Target, Told
from cloud.rollouts.machine import Rollout
from shared.fleet.desired import DesiredModel
from simulations.fleet.agenda import Agenda
from simulations.fleet.checkers.bounds import Bounds
from simulations.fleet.checkers.cohorts import Cohorts
from simulations.fleet.checkers.ends import Ends
from simulations.fleet.checkers.evidence import Evidence
from simulations.fleet.checkers.generations import Generations
from simulations.fleet.checkers.liveness import Liveness, RolledBack
from simulations.fleet.checkers.success import Success
from simulations.fleet.checkers.versions import Versions
from simulations.fleet.checkers.watcher import Broken
from simulations.fleet.models import ACTIVE, MODEL
from simulations.fleet.scenarios import STORM_SPEC, scenario
from simulations.fleet.world import World

NOTHING = Changes((), MappingProxyType({}), head=False)


def desired(generation=1, version="1.1.0"):
    return DesiredModel(
        generation=generation, model=MODEL, version=version, manifest_sha256="a" * 64
    )


def started(devices=20):
    targets = [Target(f"d{n:06d}", ACTIVE.version, ACTIVE.sha256) for n in range(devices)]
    rollout = Rollout.plan_new("r1", STORM_SPEC, targets, "operator", 1.0)
    rollout.step(Told("start", "operator"), 2.0)
    return rollout


@pytest.fixture(scope="module")
def ended():
    """A world of a good version that succeeded, without checkers."""
    world = World(scenario("good"), 1, 10)
    world.run()
    return world


def test_a_version_that_nobody_asked_for(ended):
    checker = Versions("1.0.0", frozenset({"1.0.0", "1.1.0"}))
    device = ended.devices[0]
    with pytest.raises(Broken, match=r"runs 1\.1\.0"):
        checker.runs(device, "1.1.0")
    checker.ordered(device.id, desired())
    checker.runs(device, "1.1.0")


def test_an_order_for_what_is_not_released():
    with pytest.raises(Broken, match="not released"):
        Versions("1.0.0", frozenset({"1.0.0"})).ordered("d", desired())


def test_an_order_beyond_the_open_stages():
    rollout, checker = started(), Cohorts(Agenda())
    last = list(rollout.devices())[-1].device
    with pytest.raises(Broken, match="is ordered in"):
        checker.stepped(rollout, replace(NOTHING, commands=(Order(last, "live", 1),)))


def test_an_order_for_a_stranger():
    with pytest.raises(Broken, match="not of r1"):
        Cohorts(Agenda()).stepped(started(), replace(NOTHING, commands=(Order("x", "live", 1),)))


def test_other_devices_after_a_restart():
    checker = Cohorts(Agenda())
    checker.stepped(started(), NOTHING)
    with pytest.raises(Broken, match="after a restart"):
        checker.restored(started(19))


def test_a_generation_that_falls(ended):
    checker, device = Generations(), ended.devices[0]
    checker.ordered(device.id, desired(2))
    checker.took(device, desired(2))
    with pytest.raises(Broken, match="takes generation 2 again"):
        checker.took(device, desired(2))
    with pytest.raises(Broken, match="generation 3 of nobody"):
        checker.took(device, desired(3))
    with pytest.raises(Broken, match="is ordered generation 1 again"):
        checker.ordered(device.id, desired(1))


def test_an_end_that_reopens():
    rollout, checker = started(), Ends()
    device = next(rollout.devices()).device
    member = rollout._run.index[device]
    changed = replace(NOTHING, devices={device: Phase.REJECTED})
    member.phase = Phase.REJECTED
    checker.stepped(rollout, changed)
    member.phase = Phase.DOWNLOADING
    with pytest.raises(Broken, match="was rejected and is downloading"):
        checker.stepped(rollout, changed)
    member.attempt += 1
    checker.stepped(rollout, changed)


def test_success_while_another_version_runs(ended):
    rollout = ended.rollout
    checker = Success(ended.by_id, ended.agenda)
    checker.stepped(rollout, replace(NOTHING, head=True))
    device = ended.devices[0]
    before = device.state
    device.state = replace(before, active=device.factory)
    with pytest.raises(Broken, match=r"runs 1\.0\.0"):
        checker.stepped(rollout, replace(NOTHING, head=True))
    with pytest.raises(Broken, match="which the region does not know"):
        Liveness().healed(ended)
    device.state = before
    Liveness().healed(ended)


def test_rolled_back_while_somebody_runs_it():
    world = World(scenario("crash"), 1, 40)
    world.run()
    RolledBack().healed(world)
    device = world.devices[0]
    device.state = replace(device.state, active=world.around.releases[1])
    with pytest.raises(Broken, match=r"runs 1\.1\.0"):
        RolledBack().healed(world)


def test_a_queue_over_its_bound(ended):
    Bounds().healed(ended)
    ended.network.inbox.extend([("t", None)] * (ended.network.inbox_max + 1))
    with pytest.raises(Broken, match="the broker keeps"):
        Bounds().looked(ended)
    ended.network.inbox.clear()


def test_samples_that_count_twice(ended):
    checker = Evidence(ended)
    checker.healed(ended)
    ended.traffic.done //= 2
    with pytest.raises(Broken, match="counts"):
        checker.healed(ended)
