"""A fleet, its network and its control plane, on one agenda. The same for a seed, byte for byte."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from cloud.fleet.device_settings import PresenceSettings
from cloud.fleet.documents import Baseline
from cloud.rollouts.documents import RolloutStatus
from cloud.rollouts.events import Told
from cloud.rollouts.machine import Rollout
from simulations.fleet import seeds
from simulations.fleet.agenda import EPOCH, Agenda
from simulations.fleet.checkers.watcher import Watcher
from simulations.fleet.control import Control
from simulations.fleet.device import Device
from simulations.fleet.faults import Faults
from simulations.fleet.models import ACTIVE, Traits
from simulations.fleet.nature import nature
from simulations.fleet.network import Network
from simulations.fleet.region import Killed, Region
from simulations.fleet.sampling import Samples
from simulations.fleet.scenarios import Scenario, candidates, subject, varied
from simulations.fleet.store import Store
from simulations.fleet.surroundings import Surroundings, release
from simulations.fleet.traffic import Traffic

SLOTS = 60
"""At most: telemetry is drawn for so many groups of devices in turn."""
RESTART_S = 90.0
"""At most, until a control plane that was killed is there again."""
LOOK_S = 60.0
"""Between two looks of the checkers at no special moment."""
Record = Callable[[float, str, str, object], None]


class World:
    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        devices: int,
        *,
        watchers: Sequence[Watcher] = (),
        record: Record | None = None,
        samples: Samples | None = None,
    ) -> None:
        self.scenario, self.seed, self.watchers = scenario, seed, watchers
        self.rng = seeds.source(seed, "world")
        self.candidates = candidates(scenario, self.rng)
        traits = (ACTIVE, *self.candidates)
        self.agenda = Agenda()
        self.network = Network(self.agenda, seeds.source(seed, "network"), 4 * devices + 1000)
        self.traffic = Traffic(seed, devices, traits, scenario.population)
        self._record, self._samples = record, samples
        self.around = Surroundings(
            seed=seed, agenda=self.agenda, network=self.network, traffic=self.traffic,
            rng=seeds.source(seed, "devices"), watchers=watchers, traits=traits,
            releases=tuple(release(t, number) for number, t in enumerate(traits)),
            telemetry_s=scenario.telemetry_s, report_s=scenario.report_s, on_wire=scenario.on_wire,
            audit_share=scenario.population.audit_share,
            index={t.version: number for number, t in enumerate(traits)},
        )  # fmt: skip
        natures = [nature(seed, index, scenario.trouble) for index in range(devices)]
        self.devices = [
            Device(index, f"d{index:06d}", one, self.around) for index, one in enumerate(natures)
        ]
        self.traffic.quiet[:] = [one.quiet for one in natures]
        self.traffic.slowed[:] = [one.slowed for one in natures]
        self.by_id = {device.id: device for device in self.devices}
        self.store = Store(Baseline(version=ACTIVE.version, manifest_sha256=ACTIVE.sha256))
        self.deadly = 0.0
        """Probability that the control plane dies at a point where it may."""
        self._fate = seeds.source(seed, "fate")
        self._control_around = Region(
            self.network,
            watchers,
            self._may_die,
            self.note,
            PresenceSettings(),
            scenario.on_wire,
            scenario.tick_s,
            scenario.storm.lasts_s > 0,
        )
        self.control: Control | None = Control(self.store, self._control_around)
        self.kills = 0
        self.healed_at = EPOCH
        self._ends = False
        self.begun = 0
        """Rollouts so far."""
        self._specs = [
            (
                varied(scenario.spec, self.rng) if scenario.storm.lasts_s else scenario.spec
            ).model_copy(update={"subject": subject(one), "seed": f"seed-{seed}"})
            for one in self.candidates
        ]
        self.faults = Faults(self)

    # What the run does

    def note(self, kind: str, name: str, what: object) -> None:
        """A line of the trace."""
        if self._record is not None:
            self._record(self.agenda.now, kind, name, what)

    def start(self) -> None:
        agenda, scenario = self.agenda, self.scenario
        late = seeds.source(self.seed, "late")
        for device in self.devices:
            first_s = self.rng.random() * 60.0
            if late.random() < scenario.late:
                first_s = scenario.before_s + late.random() * 2 * 3600.0
            agenda.after(first_s, device.boot)
        slots = max(1, min(SLOTS, len(self.devices) // 8))
        for slot in range(slots):
            mine = self.devices[slot::slots]
            agenda.after(scenario.telemetry_s * (slot + 1) / slots, partial(self._measure, mine))
        agenda.after(scenario.tick_s, self._tick)
        agenda.after(LOOK_S, self._look)
        agenda.after(scenario.before_s, self._begin_rollout)
        if scenario.storm.lasts_s:
            agenda.after(scenario.before_s, self.faults.begin)

    def run(self) -> None:
        """To the end of the rollout and a while beyond, or to the horizon."""
        self.start()
        end = EPOCH + self.scenario.horizon_s
        self.agenda.run_until(end)
        if self._is_over():
            self._ends = True
            self.agenda.run_until(self.agenda.now + self.scenario.settle_s)
        for watcher in self.watchers:
            watcher.healed(self)

    def _is_over(self) -> bool:
        if self.control is None or self.faults.stormy or not self.rollouts:
            return False
        if len(self.rollouts) < self.begun:
            return False  # a kill lost it, and it will be made anew
        return all(one.status is not RolloutStatus.DRAFT and not one.lives for one in self.rollouts)

    @property
    def rollouts(self) -> list[Rollout]:
        """In the order in which they began; none while the control plane is away."""
        return list(self.control.rollouts.values()) if self.control is not None else []

    @property
    def rollout(self) -> Rollout | None:
        """The newest."""
        rollouts = self.rollouts
        return rollouts[-1] if rollouts else None

    @property
    def candidate(self) -> Traits:
        """Of the newest rollout."""
        return self.candidates[max(self.begun, 1) - 1]

    def _look(self) -> None:
        self.agenda.after(LOOK_S, self._look)
        for watcher in self.watchers:
            watcher.looked(self)
        if self._samples is not None:
            self._samples.look(self)

    # Devices

    def _measure(self, mine: list[Device]) -> None:
        here = [device for device in mine if device.up]
        if here:
            self.traffic.run_to(np.array([device.index for device in here]), self.agenda.now)
        for device in here:
            device.look()
            device.reporting.measure(device)
        self.agenda.after(self.scenario.telemetry_s, partial(self._measure, mine))

    # The control plane

    def _tick(self) -> None:
        self.agenda.after(self.scenario.tick_s, self._tick)
        if not self._ends and self._is_over():
            self.agenda.stopped = True
            return
        if self.control is None:
            return
        try:
            self.control.tick(self.agenda.now)
        except Killed as death:
            self.note("killed", "control", str(death))
            self.kill()

    def kill(self) -> None:
        """Kill -9 of the control plane: the store and the broker have what they have."""
        if self.control is None:
            return
        self.control = None
        self.kills += 1
        self.network.control_gone()
        self.agenda.after(self._fate.random() * RESTART_S, self._restart)

    def _restart(self) -> None:
        self.control = Control(self.store, self._control_around)
        self.note("restarted", "control", None)

    def _may_die(self, where: str) -> None:
        if self.deadly and self._fate.random() < self.deadly:
            raise Killed(where)

    def _begin_rollout(self) -> None:
        """Create the next one and start it. A kill before the commit loses either, so it is looked
        at again; so is whether the one before is over.
        """
        storm = self.scenario.storm.lasts_s > 0
        if self.begun < len(self._specs) or storm or not self.rollouts:
            self.agenda.after(10.0 if not storm else 60.0, self._begin_rollout)
        control, now = self.control, self.agenda.now
        if control is None:
            return
        name, last = f"r{self.begun}", self.rollout
        if last is not None and last.status is RolloutStatus.DRAFT:
            control.tell(last.id, Told("start", "operator"), now)
        elif self.begun and name not in control.rollouts:
            control.create(name, self._specs[self.begun - 1], now)  # it was lost
        elif self.begun < len(self._specs) and (last is None or self._may_follow(last)):
            self.begun += 1
            control.create(f"r{self.begun}", self._specs[self.begun - 1], now)
            control.tell(f"r{self.begun}", Told("start", "operator"), now)

    def _may_follow(self, last: Rollout) -> bool:
        return not last.lives and self.faults.stormy
