"""A small fleet that acts a rollout out: devices that do what they are ordered, on given time."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from cloud.rollouts.documents import ModelSubject, Phase, RolloutSpec, RolloutStatus
from cloud.rollouts.events import (
    Came,
    Changes,
    Event,
    Measured,
    Order,
    Reported,
    Restore,
    SetBaseline,
    Target,
    Ticked,
    Told,
)
from cloud.rollouts.machine import Rollout
from shared.fleet.reported import DevicePhase, ReportedModel
from shared.fleet.telemetry import CONFIDENCE_BINS, LATENCY_BINS, Shadow, Tally, Telemetry

OLD, NEW = "1.0.0", "2.0.0"
SHA = {OLD: "a" * 64, NEW: "b" * 64}
SUBJECT = ModelSubject(model="cam", version=NEW, manifest_sha256=SHA[NEW])
STEP_S = 30.0


def spec(**changes: object) -> RolloutSpec:
    return RolloutSpec.model_validate(
        {
            "subject": SUBJECT, "group": "all", "seed": "s", "shadow_s": 0, "wave_s": 300,
            "watch_s": 600, "canary": 0.1, "waves": (0.5, 1.0), "samples_min": 100,
            "done_samples": 20,
        }
        | changes
    )  # fmt: skip


def targets(count: int) -> list[Target]:
    return [Target(f"d{i:03}", OLD, SHA[OLD]) for i in range(count)]


@dataclass(slots=True)
class Model:
    """How a version does, in shares of samples."""

    escalation: float = 0.1
    disagreement: float = 0.05
    failed: float = 0.0
    latency_bin: int = 12
    wins: float = 0.03
    losses: float = 0.03
    """Only the active version is right."""
    ends: DevicePhase = DevicePhase.COMMITTED
    golden: bool = False


@dataclass(slots=True)
class Actor:
    name: str
    rng: np.random.Generator
    rate: float = 100.0
    """Samples in each step."""
    version: str = OLD
    sequence: int = 0
    told: int = 0
    started: int = 0
    attempt: int = 1
    stage: str = ""
    deaf: bool = False
    bias: float = 1.0
    audits: float = 0.3
    """Share of its confident samples."""
    counts: dict[str, int] = field(default_factory=dict)
    latency: list[int] = field(default_factory=lambda: [0] * LATENCY_BINS)
    confidence: list[int] = field(default_factory=lambda: [0] * CONFIDENCE_BINS)
    shadow: dict[str, int] = field(default_factory=dict)

    @property
    def boot(self) -> str:
        return self.name.encode().hex().rjust(16, "0")[-16:]

    def report(self, phase: DevicePhase, **changes: object) -> ReportedModel:
        self.sequence += 1
        return ReportedModel.model_validate(
            {
                "sequence": self.sequence, "at": 0.0, "rollout": "r1", "attempt": self.attempt,
                "phase": phase, "model": "cam", "version": self.version,
                "manifest_sha256": SHA[self.version],
            }
            | changes
        )  # fmt: skip

    def swap(self, version: str) -> None:
        if version != self.version:
            self.version = version
            self.started += 1
            self.counts, self.shadow = {}, {}
            self.latency, self.confidence = [0] * LATENCY_BINS, [0] * CONFIDENCE_BINS

    def work(self, model: Model, candidate: Model | None) -> Telemetry:
        n = int(self.rng.poisson(self.rate))
        draw = self.rng.binomial
        escalated = int(draw(n, min(1.0, model.escalation * self.bias)))
        audits = int(draw(n - escalated, self.audits))
        wrong = int(draw(audits, min(1.0, model.disagreement * self.bias)))
        for name, more in {
            "samples": n, "escalated": escalated, "audited": audits,
            "answered": escalated + audits, "audit_answered": audits, "audit_disagreed": wrong,
            "disagreed": wrong, "failed": int(draw(n, model.failed)),
        }.items():  # fmt: skip
            self.counts[name] = self.counts.get(name, 0) + more
        self.latency[model.latency_bin] += n
        for i, more in enumerate(self.rng.multinomial(n, [0.1] * CONFIDENCE_BINS)):
            self.confidence[i] += int(more)
        self.told += 1
        return Telemetry(
            boot=self.boot, sequence=self.told, at=0.0, uptime_s=30.0 * self.told, interval_s=30,
            tally=Tally(
                model="cam", version=self.version, started=self.started, **self.counts,
                latency=tuple(self.latency), confidence=(tuple(self.confidence),),
            ),
            shadow=self._shadow(candidate, n) if candidate else None,
        )  # fmt: skip

    def _shadow(self, candidate: Model, n: int) -> Shadow:
        right = 1 - candidate.wins - candidate.losses
        wins, losses, both = (
            int(x) for x in self.rng.multinomial(n, [candidate.wins, candidate.losses, right])
        )
        for name, more in {
            "samples": n, "agreed": both, "only_candidate_right": wins,
            "only_active_right": losses, "both_right": both,
        }.items():  # fmt: skip
            self.shadow[name] = self.shadow.get(name, 0) + more
        return Shadow(version=NEW, **self.shadow)


class Stage:
    """A rollout and its devices; `play` lets time pass."""

    def __init__(
        self, count: int, seed: int = 0, model: Model | None = None, restores: bool = False,
        **changes: object,
    ) -> None:  # fmt: skip
        self.now = 1_000_000.0
        self.models = {OLD: Model(), NEW: model or Model()}
        self.actors = {
            one.device: Actor(one.device, np.random.default_rng([seed, i]))
            for i, one in enumerate(targets(count))
        }
        self.rollout = Rollout.plan_new("r1", spec(**changes), targets(count), "ann", self.now)
        self.log: list[str] = []
        self.orders: list[str] = []
        self.baseline = False
        self._restores = restores

    def tell(self, what: str) -> Changes:
        told = Told(what, "ann")  # type: ignore[arg-type]
        self.rollout.check(told, self.now)
        return self.step(told)

    def step(self, event: Event) -> Changes:
        changes = self.rollout.step(event, self.now)
        self.log.append(f"{self.now} {changes}")
        for command in changes.commands:
            match command:
                case Order(device, stage, attempt):
                    self.orders.append(device)
                    self.actors[device].stage = stage
                    self.actors[device].attempt = attempt
                case Restore(device):
                    self.actors[device].stage = "back"
                case SetBaseline():
                    self.baseline = True
        if self._restores:
            head = self.rollout.to_record()
            devices = [self.rollout.device_record(one) for one in sorted(self.actors)]
            self.rollout = Rollout.from_record(head, devices)
            assert json.loads(self.rollout.to_record()) == json.loads(head)
        return changes

    def act(self, actor: Actor) -> None:
        if actor.deaf:
            return
        new = self.models[NEW]
        stage, actor.stage = actor.stage, ""
        if stage == "shadow":
            self.step(Reported(actor.name, actor.report(DevicePhase.ACCEPTED)))
            self.step(Reported(actor.name, actor.report(DevicePhase.STAGED)))
        elif stage == "live":
            if new.ends is DevicePhase.COMMITTED:
                actor.swap(NEW)
            self.step(Reported(actor.name, actor.report(new.ends, golden_failed=new.golden)))
        elif stage == "back":
            actor.swap(OLD)
            self.step(Reported(actor.name, actor.report(DevicePhase.COMMITTED, rollout=None)))
        staged = self.phase(actor.name) is Phase.STAGED
        telemetry = actor.work(self.models[actor.version], new if staged else None)
        self.step(Measured(actor.name, telemetry))

    def play(self, seconds: float, until: Callable[[], bool] | None = None) -> None:
        end = self.now + seconds
        while self.now < end and not (until and until()):
            self.now += STEP_S
            for name in sorted(self.actors):
                self.act(self.actors[name])
            self.step(Ticked())

    def phase(self, device: str) -> Phase:
        found = self.rollout.device(device)
        assert found is not None
        return found.phase

    @property
    def status(self) -> RolloutStatus:
        return self.rollout.status

    def ended(self) -> bool:
        return not self.rollout.lives

    def in_order(self) -> Sequence[str]:
        return [one.device for one in self.rollout.devices()]

    def came(self, device: str) -> Changes:
        return self.step(Came(device))
