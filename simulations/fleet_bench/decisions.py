"""How many events a rollout takes a second: the machine alone, then through process and store."""

import time
from dataclasses import dataclass

from cloud.rollouts.documents import ModelSubject, RolloutSpec, RolloutStatus
from cloud.rollouts.events import Measured, Order, Reported, Restore, Target, Ticked, Told
from cloud.rollouts.machine import Rollout
from shared.fleet.desired import DesiredModel
from shared.fleet.reported import ReportedModel
from shared.fleet.telemetry import Telemetry
from simulations.light_devices.device import LightDevice, Version

_START = 1e9
MODEL, OLD, NEW = "m", Version("1.0.0", "a" * 64), Version("1.1.0", "b" * 64)


@dataclass(frozen=True, slots=True)
class Decisions:
    devices: int
    events: int
    per_s: float


def spec(group: str = "all", **changes: object) -> RolloutSpec:
    """Everything at once, and quickly."""
    tree: dict[str, object] = {
        "subject": ModelSubject(model=MODEL, version=NEW.version, manifest_sha256=NEW.manifest_sha256),
        "group": group, "seed": "bench", "shadow_s": 0.0, "canary": 0.05, "waves": [1.0],
        "wave_s": 0.5, "watch_s": 3600.0, "samples_min": 10, "done_samples": 5,
        **changes,
    }  # fmt: skip
    return RolloutSpec.model_validate(tree)


def measure(devices: int) -> Decisions:
    """From the start until every device is done: orders, reports, telemetry, ticks."""
    fleet = {
        name: LightDevice(name, MODEL, OLD, {}, seed=seed)
        for seed, name in enumerate(f"d{n:05}" for n in range(devices))
    }
    targets = [Target(name, OLD.version, OLD.manifest_sha256) for name in fleet]
    rollout = Rollout.plan_new("bench", spec(), targets, "bench", _START)
    now, events, spent, generation = _START, 0, 0.0, 0
    todo: list[tuple[str, bytes]] = []

    def step(event: Ticked | Told | Reported | Measured) -> None:
        nonlocal events, spent, generation
        began = time.perf_counter()
        changes = rollout.step(event, now)
        spent += time.perf_counter() - began
        events += 1
        for command in changes.commands:
            if isinstance(command, Order | Restore):
                generation += 1
                todo.append((command.device, _desired(generation, command)))

    step(Told("start", "bench"))
    while rollout.view(now).stage < 2 and now < _START + 600:
        now += 1.0
        step(Ticked())
        orders, todo = todo, []
        for name, payload in orders:
            for message in fleet[name].received("x/model", payload, now):
                step(Reported(name, ReportedModel.model_validate_json(message.payload)))
        for name, device in fleet.items():
            step(Measured(name, Telemetry.model_validate_json(device.telemetry(now, 1.0).payload)))
    assert rollout.view(now).status is RolloutStatus.RUNNING
    return Decisions(devices, events, events / spent)


def _desired(generation: int, command: Order | Restore) -> bytes:
    version = NEW if isinstance(command, Order) else OLD
    return DesiredModel(
        generation=generation, model=MODEL, version=version.version,
        manifest_sha256=version.manifest_sha256, rollout="bench",
    ).to_bytes()  # fmt: skip
