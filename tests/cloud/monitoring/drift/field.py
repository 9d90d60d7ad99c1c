"""A small fleet whose inputs are drawn from known distributions, for the tests of drift."""

import numpy as np

from cloud.monitoring.drift.reference import Reference, of_sketches
from cloud.monitoring.drift.settings import DriftSettings
from cloud.monitoring.drift.watch import Watch
from cloud.training.bundles import sketch
from shared.fleet.telemetry import Sketches, Stratum, Tally, Telemetry
from shared.sketches import reference_hash

MODEL = "m"
INTERVAL_S = 30.0


def _draw(rng: np.random.Generator, count: int, shift: float, sure: float) -> np.ndarray:
    """[count, features]: mean, deviation, confidence, class."""
    return np.column_stack([
        rng.normal(100 + 30 * shift, 20, count), rng.normal(40 + 10 * shift, 8, count),
        rng.beta(8 * sure, 2, count), rng.integers(0, 4, count).astype(float),
    ])  # fmt: skip


NAMES = ("input_mean", "input_std", "confidence", "predicted_class")
SKETCHES = tuple(
    sketch(name, _draw(np.random.default_rng(1), 5000, 0.0, 1.0)[:, at])
    for at, name in enumerate(NAMES)
)
EDGES = [np.asarray(one.edges) for one in SKETCHES]


def reference(version: str = "1.0.0", expected: float | None = None) -> Reference:
    return of_sketches(MODEL, version, SKETCHES, expected)


class Device:
    """`sees` samples, and `report`s them as real devices do: cumulative."""

    def __init__(self, name: str, seed: int = 0, version: str = "1.0.0") -> None:
        self.name, self.version = name, version
        self.rng = np.random.default_rng([seed, *name.encode()])
        self.boot, self.sequence, self.started = 1, 0, 0
        self._begin()

    def _begin(self) -> None:
        self.counts = [np.zeros(len(edges) + 1, int) for edges in EDGES]
        self.samples = self.looked = self.missing = self.escalated = 0
        self.answered = self.disagreed = self.audit_answered = self.audit_disagreed = 0
        self.strata: dict[float, list[int]] = {}

    def swaps(self, version: str) -> None:
        self.version, self.started = version, self.started + 1
        self._begin()

    def restarts(self) -> None:
        self.boot, self.sequence, self.started = self.boot + 1, 0, 0
        self._begin()

    def sees(
        self, count: int, shift: float = 0.0, sure: float = 1.0, missing: int = 0,
        looks: int | None = None,
    ) -> None:  # fmt: skip
        """`looks`: at the inputs of so many of them; None: at all."""
        values = _draw(self.rng, count, shift, sure)
        looks = count if looks is None else looks
        for at, edges in enumerate(EDGES):
            some = values[:looks, at] if NAMES[at].startswith("input_") else values[:, at]
            bins = np.searchsorted(edges, some, side="right")
            self.counts[at] += np.bincount(bins, minlength=len(edges) + 1)
        self.samples += count + missing
        self.looked += looks + missing
        self.missing += missing

    def is_audited(self, share: float, confident: int, answered: int, disagreed: int) -> None:
        """Of samples that were seen."""
        row = self.strata.setdefault(share, [0, 0, 0, 0])
        for at, value in enumerate((confident, answered, answered, disagreed)):
            row[at] += value
        self.answered += answered
        self.audit_answered += answered
        self.disagreed += disagreed
        self.audit_disagreed += disagreed

    def report(self, hash_: str | None = None, uptime_s: float = 1.0) -> Telemetry:
        self.sequence += 1
        return Telemetry(
            boot=f"{self.boot:016x}", sequence=self.sequence, at=0.0, uptime_s=uptime_s,
            interval_s=INTERVAL_S,
            tally=Tally(
                model=MODEL, version=self.version, started=self.started, samples=self.samples,
                escalated=self.escalated, answered=self.answered, disagreed=self.disagreed,
                audit_answered=self.audit_answered, audit_disagreed=self.audit_disagreed,
                strata=tuple(
                    Stratum(share=share, confident=a, audited=b, answered=c, disagreed=d)
                    for share, (a, b, c, d) in self.strata.items()
                ),
            ),
            sketches=Sketches(
                reference=hash_ or reference_hash(SKETCHES), looked=self.looked,
                missing=self.missing,
                counts={
                    name: tuple(map(int, row)) for name, row in zip(NAMES, self.counts, strict=True)
                },
            ),
        )  # fmt: skip


class Field:
    """Groups of devices under one watch; `turn` is a report of each and a look."""

    def __init__(
        self, groups: dict[str, int], settings: DriftSettings | None = None, seed: int = 0
    ) -> None:
        self.watch = Watch(settings or DriftSettings())
        self.watch.know(reference())
        self.devices = {
            group: [Device(f"{group}-{at}", seed) for at in range(count)]
            for group, count in groups.items()
        }
        self.now = 1000.0

    def turn(self, samples: int = 40, shifts: dict[str, float] | None = None,
             sure: dict[str, float] | None = None) -> list:  # fmt: skip
        """`shifts` and `sure`: by device or group."""
        self.now += INTERVAL_S
        for group, devices in self.devices.items():
            for one in devices:

                def of(table, plain, one=one, group=group):
                    table = table or {}
                    return table.get(one.name, table.get(group, plain))

                one.sees(samples, of(shifts, 0.0), of(sure, 1.0))
                self.watch.feed(one.name, group, one.report(), self.now)
        return self.watch.look(self.now)

    def turns(self, count: int, samples: int = 40, **kwargs) -> list:
        return [change for _ in range(count) for change in self.turn(samples, **kwargs)]

    def on(self) -> set[tuple[str, str, str]]:
        """Kind, kind of scope and name of the alarms that are on."""
        return {(kind.value, scope.kind, scope.name) for kind, scope in self.watch.board.alarms}
