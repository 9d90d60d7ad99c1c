"""One simulation from its name to its outcome."""

import gc
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from cloud.rollouts.documents import RolloutView
from shared.errors import Malformed
from simulations.fleet.agenda import EPOCH
from simulations.fleet.checkers.bounds import Bounds
from simulations.fleet.checkers.cohorts import Cohorts
from simulations.fleet.checkers.ends import Ends
from simulations.fleet.checkers.evidence import Evidence
from simulations.fleet.checkers.generations import Generations
from simulations.fleet.checkers.liveness import Liveness, RolledBack
from simulations.fleet.checkers.success import Success
from simulations.fleet.checkers.versions import Versions
from simulations.fleet.checkers.watcher import Watcher
from simulations.fleet.sampling import Samples
from simulations.fleet.scenarios import Scenario, sized
from simulations.fleet.telemetry import ESCALATION_BYTES
from simulations.fleet.trace import Trace
from simulations.fleet.world import World

DEVICES_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class Outcome:
    scenario: str
    seed: int
    devices: int
    candidate: str
    rollouts: int
    status: str
    """Of the newest rollout."""
    why: str
    stage: str
    """In which it ended: "canary 1"."""
    hours: float
    """Virtual ones, from the rollout's start to its end."""
    exposed: int
    """Devices on which a new version ever answered."""
    exposed_samples: int
    """That the new version answered."""
    accuracy: float
    """Of all final answers, against the cloud's label, over the whole run."""
    bytes_per_sample: float
    latency_ms: float
    """Mean of the devices' own answers."""
    kills: int
    """Of the control plane."""
    messages: int
    wall_s: float


class Exposed(Watcher):
    """Counts; it checks nothing."""

    def __init__(self, versions: frozenset[str]) -> None:
        self._versions = versions
        self.devices: set[str] = set()

    def runs(self, device: "object", version: str) -> None:
        if version in self._versions:
            self.devices.add(device.id)  # type: ignore[attr-defined]  # a Device; no import cycle


def checkers(world: World) -> list[Watcher]:
    released = frozenset(r.version for r in world.around.releases)
    return [
        Versions(world.around.releases[0].version, released),
        Cohorts(world.agenda),
        Generations(),
        Ends(),
        Success(world.by_id, world.agenda),
        Liveness(),
        RolledBack(),
        Bounds(),
        Evidence(world),
    ]


@dataclass(frozen=True, slots=True)
class Ran:
    outcome: Outcome
    samples: Samples


def simulate(
    scenario: Scenario, seed: int, devices: int, *, trace: Path | None = None, checked: bool = True
) -> Ran:
    """Raises `Broken` when an invariant does not hold, which names it; `Malformed` for a fleet that
    is no fleet.
    """
    if not 1 <= devices <= DEVICES_MAX:
        raise Malformed(f"devices: {devices}; between 1 and {DEVICES_MAX:,} can be simulated")
    scenario = sized(scenario, devices)
    began, samples = time.perf_counter(), Samples()
    watchers: list[Watcher] = []
    with ExitStack() as stack:
        record = samples.record
        if trace is not None:
            lines = stack.enter_context(Trace(trace))
            lines.write(
                {"kind": "simulated", "scenario": scenario.name, "seed": seed, "devices": devices}
            )

            def both(now: float, kind: str, name: str, what: object) -> None:
                samples.record(now, kind, name, what)
                lines.record(now, kind, name, what)

            record = both
        world = World(scenario, seed, devices, watchers=watchers, record=record, samples=samples)
        exposed = Exposed(frozenset(one.version for one in world.candidates))
        watchers.append(exposed)
        if checked:
            watchers.extend(checkers(world))
        gc.disable()  # a fleet lives as long as its run; looking through it each time is a third of it
        try:
            world.run()
        finally:
            gc.enable()
    return Ran(_outcome(world, exposed, time.perf_counter() - began), samples)


def _outcome(world: World, exposed: Exposed, wall_s: float) -> Outcome:
    rollout = world.rollout
    view = rollout.view(world.agenda.now) if rollout is not None else None
    truth = world.traffic.truth.sum(axis=0)
    samples = max(float(truth[0]), 1.0)
    return Outcome(
        scenario=world.scenario.name,
        seed=world.seed,
        devices=len(world.devices),
        candidate=world.candidate.kind,
        rollouts=world.begun,
        status="none" if view is None else view.status.value,
        why="" if view is None else view.why,
        stage="" if view is None else stage_words(view),
        hours=round(_hours(view, world.agenda.now), 3),
        exposed=len(exposed.devices),
        exposed_samples=int(world.traffic.done[:, 1:].sum()),
        accuracy=round(1.0 - float(truth[1]) / samples, 6),
        bytes_per_sample=round(float(truth[2]) / samples * ESCALATION_BYTES, 3),
        latency_ms=round(float(truth[3]) / samples, 4),
        kills=world.kills,
        messages=world.network.sent,
        wall_s=round(wall_s, 3),
    )


def _hours(view: RolloutView | None, now: float) -> float:
    if view is None or view.started_at is None:
        return 0.0
    return ((view.ended_at or now) - view.started_at) / 3600.0


def stage_words(view: RolloutView) -> str:
    if not view.stages:
        return ""
    stage = view.stages[min(view.stage, len(view.stages) - 1)]
    return f"{stage.kind} {stage.number}"


def words(outcome: Outcome) -> Sequence[str]:
    """Lines for people."""
    return [f"{name:<18}{value}" for name, value in asdict(outcome).items()]


__all__ = ["EPOCH", "Outcome", "Ran", "checkers", "simulate", "stage_words", "words"]
