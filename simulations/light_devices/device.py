"""One device as its region sees it: presence, reported state, telemetry; no I/O."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from shared import topics
from shared.errors import HybridgeError
from shared.fleet import desired, reported
from shared.fleet.desired import DesiredModel, DesiredProfile
from shared.fleet.reported import DevicePhase, ReportedInventory, ReportedModel, ReportedProfile
from shared.fleet.telemetry import Health, Shadow, Tally, Telemetry
from shared.ids import device_id
from simulations.light_devices.behaviour import (
    Behaviour,
    Counts,
    confidence_table,
    latency_histogram,
)

AUDIT_SHARE = 0.01
_FAULTS = {
    "load": "the probe: the model does not load here",
    "golden": "the probe: 3 of 8 golden samples differ",
    "slow": "the probe: takes 5.0 times as long as the active version",
}


@dataclass(frozen=True, slots=True)
class Version:
    version: str
    manifest_sha256: str


@dataclass(frozen=True, slots=True)
class Message:
    topic: str
    payload: bytes
    retain: bool = False


class LightDevice:
    def __init__(
        self,
        name: str,
        model: str,
        runs: Version,
        behaviours: Mapping[str, Behaviour],
        *,
        seed: int,
        samples_per_s: float = 5.0,
    ) -> None:
        """`behaviours`: by version; one that is not there behaves as the default."""
        self.name, self.model, self.runs = device_id(name), model, runs
        self._behaviours, self._samples_per_s = behaviours, samples_per_s
        self._rng = np.random.Generator(np.random.PCG64(seed))
        self._boot = f"{seed:016x}"
        self._desired: DesiredModel | None = None
        self._profile: DesiredProfile | None = None
        self._phase = DevicePhase.COMMITTED
        self._why = ""
        self._golden_failed = False
        self._counts, self._shadow, self._tally = Counts(), Counts(), 0
        self._pairs = np.zeros(4, np.int64)
        self._sequences = dict.fromkeys(("model", "profile", "inventory", "tel"), 0)
        self._reported_at = 0.0
        self.done = 0
        """Desired model sections taken."""

    def will(self) -> Message:
        return self._state(online=False)

    def subscriptions(self) -> tuple[str, ...]:
        return tuple(topics.desired(self.name, section) for section in desired.SECTIONS)

    def connected(self, now: float) -> list[Message]:
        self._reported_at = now
        return [
            self._state(online=True), self._model(now), self._reported_profile(now),
            self._inventory(now),
        ]  # fmt: skip

    def received(self, topic: str, payload: bytes, now: float) -> list[Message]:
        """What follows from a desired section; a copy or an older one: nothing."""
        try:
            if topic.endswith("/profile"):
                return self._takes_profile(
                    DesiredProfile.from_bytes(payload, desired.BYTES_MAX), now
                )
            wanted = DesiredModel.from_bytes(payload, desired.BYTES_MAX)
        except HybridgeError:
            return []
        if self._desired is not None and wanted.generation <= self._desired.generation:
            return []
        self._desired = wanted
        self.done += 1
        return [self._reports(phase, now) for phase in self._takes(wanted)]

    def telemetry(self, now: float, interval_s: float) -> Message:
        """Everything since the last one is drawn here."""
        samples = int(self._rng.poisson(self._samples_per_s * max(now - self._reported_at, 0.0)))
        self._reported_at = now
        behaviour = self._behaviour(self.runs.version)
        wanted = self._desired
        share = AUDIT_SHARE
        if wanted is not None and wanted.audit_share is not None:
            share = wanted.audit_share
        self._counts.draw(behaviour, samples, share, self._rng)
        shadow = None
        if self._phase is DevicePhase.STAGED and wanted is not None:
            shadow = self._runs_in_shadow(wanted.version, behaviour, samples, share)
        counts = self._counts
        self._sequences["tel"] += 1
        document = Telemetry(
            boot=self._boot, sequence=self._sequences["tel"], at=now, uptime_s=max(now, 0.0) % 1e9,
            interval_s=interval_s,
            tally=Tally(
                model=self.model, version=self.runs.version, started=self._tally,
                samples=counts.samples, escalated=counts.escalated, audited=counts.audited,
                answered=counts.answered, disagreed=counts.disagreed,
                audit_answered=counts.audit_answered, audit_disagreed=counts.audit_disagreed,
                latency=latency_histogram(behaviour.latency_ms, counts.samples),
                confidence=confidence_table(counts.samples, counts.escalated),
            ),
            shadow=shadow, health=Health(disk_free_bytes=10**9, memory_bytes=60 * 10**6),
        )  # fmt: skip
        return Message(topics.telemetry(self.name), document.to_bytes())

    def _takes(self, wanted: DesiredModel) -> Iterator[DevicePhase]:
        self._why, self._golden_failed = "", False
        if wanted.version == self.runs.version:
            yield DevicePhase.COMMITTED
            return
        yield DevicePhase.ACCEPTED
        fault = self._behaviour(wanted.version).fault
        if fault:
            self._why, self._golden_failed = _FAULTS[fault], fault == "golden"
            yield DevicePhase.REJECTED
            return
        if wanted.stage == "shadow":
            self._shadow, self._pairs = Counts(), np.zeros(4, np.int64)
            yield DevicePhase.STAGED
            return
        self.runs = Version(wanted.version, wanted.manifest_sha256)
        self._counts, self._tally = Counts(), self._tally + 1
        yield DevicePhase.COMMITTED

    def _runs_in_shadow(
        self, version: str, active: Behaviour, samples: int, share: float
    ) -> Shadow:
        """Two models of one task are wrong about the same samples but for two points of each."""
        candidate = self._behaviour(version)
        self._shadow.draw(candidate, samples, share, self._rng)
        seen = int(self._rng.binomial(samples, min(active.escalated + share, 1.0)))
        both_wrong = min(1 - active.accuracy, 1 - candidate.accuracy) * 0.6
        only_candidate = 1 - active.accuracy - both_wrong
        only_active = 1 - candidate.accuracy - both_wrong
        both = 1 - both_wrong - only_candidate - only_active
        self._pairs += self._rng.multinomial(seen, [both, only_candidate, only_active, both_wrong])
        right, new, old, wrong = map(int, self._pairs)
        total = self._shadow.samples
        return Shadow(
            version=version, started=self.done, samples=total,
            agreed=int(total * (both + both_wrong)),
            latency=latency_histogram(candidate.latency_ms, total), both_right=right,
            only_candidate_right=new, only_active_right=old, both_wrong=wrong,
        )  # fmt: skip

    def _behaviour(self, version: str) -> Behaviour:
        return self._behaviours.get(version, Behaviour())

    def _takes_profile(self, wanted: DesiredProfile, now: float) -> list[Message]:
        if self._profile is not None and wanted.generation <= self._profile.generation:
            return []
        self._profile = wanted
        return [self._reported_profile(now)]

    def _reports(self, phase: DevicePhase, now: float) -> Message:
        self._phase = phase
        return self._model(now)

    def _model(self, now: float) -> Message:
        wanted = self._desired
        staged = wanted is not None and self._phase is DevicePhase.STAGED
        document = ReportedModel(
            sequence=self._next("model"), at=now, generation=0 if wanted is None else wanted.generation,
            rollout=None if wanted is None else wanted.rollout,
            attempt=0 if wanted is None else wanted.attempt, phase=self._phase, model=self.model,
            version=self.runs.version, manifest_sha256=self.runs.manifest_sha256,
            variant="onnxruntime/int8", why=self._why, golden_failed=self._golden_failed,
            candidate=wanted.version if staged and wanted is not None else None,
        )  # fmt: skip
        return self._section("model", document)

    def _reported_profile(self, now: float) -> Message:
        had = self._profile
        sequence = self._next("profile")
        if had is None:
            return self._section("profile", ReportedProfile(sequence=sequence, at=now))
        document = ReportedProfile(
            sequence=sequence, at=now, generation=had.generation, name=had.name,
            version=had.version, sha256=had.sha256,
        )  # fmt: skip
        return self._section("profile", document)

    def _inventory(self, now: float) -> Message:
        document = ReportedInventory(
            sequence=self._next("inventory"), at=now, agent="0.0.0", system="none", arch="none",
            cpu="none", cores=1, memory_bytes=0, disk_bytes=0,
        )  # fmt: skip
        return self._section("inventory", document)

    def _section(
        self, section: reported.Section, document: ReportedModel | ReportedProfile | ReportedInventory
    ) -> Message:  # fmt: skip
        return Message(topics.reported(self.name, section), document.to_bytes(), retain=True)

    def _state(self, *, online: bool) -> Message:
        words = (
            f'{{"online": {str(online).lower()}, "model": "{self.model}", '
            f'"model_version": "{self.runs.version}"}}'
        )
        return Message(topics.state(self.name), words.encode(), retain=True)

    def _next(self, section: str) -> int:
        self._sequences[section] += 1
        return self._sequences[section]
