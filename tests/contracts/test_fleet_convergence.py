"""Whatever operators, rollouts and devices do in whatever order, devices end with their group's."""

import random
import shutil
from typing import Any

import pytest

from cloud.fleet.device_settings import DeviceSettings
from cloud.fleet.devices import Fleet
from cloud.fleet.documents import Group
from cloud.fleet.grouping import Grouping
from cloud.fleet.heard import PresenceChange
from cloud.fleet.store.database import FleetDatabase
from shared.errors import Conflict
from tests.contracts.test_fleet import NOW, baseline, model, order_of, queued, view

DEVICES = ("a", "b", "c")
VERSIONS = ("1.0.0", "1.1.0", "2.0.0")
GROUPS = ("all", "lyon", "paris")
SEEDS = range(12)
ACTIONS = 60
ORDERED = 2
"""Devices of a rollout that have their order; the others wait."""


def _action(rng: random.Random) -> tuple[str, Any, Any]:
    site = rng.choice(("lyon", "paris"))
    status = rng.choice(("succeeded", "rolled_back", "aborted"))
    actions: list[tuple[int, tuple[str, Any, Any]]] = [
        (3, ("label", rng.choice(DEVICES), rng.choice(("lyon", "paris", "oslo")))),
        (3, ("group", site, rng.randrange(3))),
        (1, ("ungroup", site, None)),
        (2, ("baseline", rng.choice(GROUPS), rng.choice(VERSIONS))),
        (4, ("report", rng.choice(DEVICES), rng.randrange(10))),
        (1, ("presence", rng.choice(DEVICES), rng.random() < 0.5)),
        (4, ("start", rng.choice(GROUPS), rng.choice(VERSIONS))),
        (2, ("end", rng.choice(GROUPS), status)),
        (4, ("settle", None, rng.randrange(1, 4))),
    ]
    return rng.choices([one for _, one in actions], [weight for weight, _ in actions])[0]


@pytest.fixture(scope="module")
def migrated(tmp_path_factory):
    file = tmp_path_factory.mktemp("fleet") / "fleet.db"
    database = FleetDatabase(f"sqlite:///{file}")
    database.open()
    database.close()
    return file


class _World:
    """Keeps what was published, as devices have it on disk."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.generations: dict[str, int] = {}
        self.running: dict[str, str] = {}
        self.versions: dict[str, str] = {}
        self.aborted: dict[str, str] = {}
        """Of each group the rollout that left devices as they are, until its baseline is set."""
        self._count = 0

    def published(self, orders: Any) -> None:
        for device, one in orders:
            assert one.generation > self.generations.get(device, 0), "a device would refuse it"
            self.generations[device] = one.generation

    def check_running(self) -> None:
        """What a rollout has nobody else moves."""
        for group, rollout in self.running.items():
            for n, one in enumerate(self.fleet.rollout_devices(rollout)[0]):
                device = self.fleet.device(one.device)
                assert device.group == group
                if n < ORDERED:
                    assert device.desired_model is not None
                    assert device.desired_model.rollout == rollout

    def do(self, what: str, whom: Any, how: Any) -> None:
        fleet = self.fleet
        match what:
            case "label":
                fleet.label(whom, {"site": how}, "ann", NOW)
            case "group":
                group = Group(name=whom, selector=f"site={whom}", priority=how)
                fleet.put_group(group, "ann", NOW)
            case "ungroup":
                if whom in {one.name for one in fleet.groups()}:
                    fleet.remove_group(whom, "ann", NOW)
                    self.aborted.pop(whom, None)
            case "baseline":
                if whom in {one.name for one in fleet.groups()}:
                    fleet.set_baseline(whom, "m", baseline(how), "ann", NOW)
                    self.aborted.pop(whom, None)
            case "report":
                self._report(whom, how)
            case "presence":
                fleet.record([(whom, PresenceChange(how))], NOW)
            case "start":
                self._start(whom, how)
            case "end":
                self._end(whom, how)
            case "settle":
                self.published(fleet.settle(NOW, how))

    def _report(self, device: str, ahead: int) -> None:
        """Now and then of a generation that this region never gave."""
        self._count += 1
        generation = self.generations.get(device, 0) + (ahead > 6) * 50
        self.generations[device] = generation
        self.fleet.record([(device, model(self._count, generation=generation))], NOW)

    def _start(self, group: str, version: str) -> None:
        if group in self.running or group not in {one.name for one in self.fleet.groups()}:
            return
        self._count += 1
        rollout = f"r{self._count}"
        devices = self.fleet.ids("", group)
        orders = [(one, order_of(version, rollout=rollout)) for one in devices[:ORDERED]]
        self.published(self.fleet.save_rollout(
            view(rollout, group=group, version=version), b"", queued(*devices), now=NOW,
            orders=orders,
        ))  # fmt: skip
        self.running[group], self.versions[group] = rollout, version

    def _end(self, group: str, status: str) -> None:
        if group in self.running:
            rollout, version = self.running.pop(group), self.versions[group]
            self.fleet.save_rollout(
                view(rollout, status, group, version=version), b"", now=NOW,
                sets_baseline=status == "succeeded",
            )  # fmt: skip
            if status == "aborted":
                self.aborted[group] = rollout
            elif status == "succeeded":
                self.aborted.pop(group, None)


@pytest.mark.parametrize("seed", SEEDS)
def test_devices_end_with_what_their_group_has(migrated, tmp_path, seed):
    rng = random.Random(seed)
    file = shutil.copy(migrated, tmp_path / "fleet.db")
    database = FleetDatabase(f"sqlite:///{file}")
    fleet = Fleet(database, DeviceSettings(needs_enrolment=False))
    try:
        world = _World(fleet)
        fleet.record([(device, model(0)) for device in DEVICES], NOW)
        for _ in range(ACTIONS):
            try:
                world.do(*_action(rng))
            except Conflict:
                assert world.running, "nothing is refused where no rollout runs"
            world.check_running()
        for group in GROUPS:
            world.do("end", group, "rolled_back")
        for _ in DEVICES:  # a look may find nothing to change in its part of them
            world.published(fleet.settle(NOW, 2))
        assert fleet.settle(NOW) == []
        groups = {one.name: one for one in fleet.groups()}
        grouping = Grouping(groups.values())
        for facts in fleet.facts():
            device = fleet.device(facts.id)
            assert device.group == grouping.group_of(facts)
            has, desired = groups[device.group].models.get("m"), device.desired_model
            if desired is not None:
                assert desired.generation >= world.generations[facts.id]
            if has is not None and world.aborted.get(device.group) is None:
                assert desired is not None
                assert (desired.version, desired.rollout) == (has.version, None)
    finally:
        database.close()
