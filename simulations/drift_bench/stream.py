"""One simulated fleet: cameras that see images, report their sketches, and are watched. Pure.

Each site sees classes in its own proportion, which changes between day and night as the light does.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from cloud.monitoring.drift.documents import Alarm, Kind
from cloud.monitoring.drift.opened import Opened
from cloud.monitoring.drift.settings import DriftSettings
from cloud.monitoring.drift.watch import Watch
from edge.routing.novelty import EVERY
from shared.fleet.telemetry import Sketches, Tally, Telemetry
from simulations.drift_bench.material import LIGHT, Material, light

GROUPS: Final = 4
DEVICES: Final = 6
"""Of each group."""
REPORT_S: Final = 30.0
SAMPLES: Final = 10.0
"""Of a report, on average."""
BEFORE: Final = 12
SAMPLES_BEFORE: Final = 40.0
"""Reports of each device until drift begins, longer ones: every window is full then."""
AFTER_MAX: Final = 60
UNSEEN: Final = ("rotate 20 deg",)
NOTICED: Final = 20
"""A device looks at one input in four, and at each one from so many strange ones on; it does not see
by itself what leaves inputs nearly as they are."""
DAY_S: Final = 86_400.0
Where = Literal["a device", "half a group", "a group", "half the fleet", "the fleet"]
_SITE: Final = 5.0
"""Concentration of a site's proportions of classes: its rarest class is seen a fifth as often as the
usual one."""
_DEVICE: Final = 60.0
_KINDS: Final = frozenset({Kind.INPUT, Kind.ANSWER})


@dataclass(frozen=True, slots=True)
class Stream:
    shift: str | None
    """None: nothing drifts."""
    where: Where
    seed: int


@dataclass(slots=True)
class Outcome:
    delay: int | None = None
    """Samples of the scope from the first that drifted until its alarm."""
    wrong: list[Alarm] = field(default_factory=list)
    """Alarms about scopes in which nothing drifts."""
    days: float = 0.0


@dataclass(slots=True)
class _Camera:
    name: str
    group: str
    classes: NDArray[np.float64]
    by_night: NDArray[np.float64]
    row: NDArray[np.int64]
    samples: int = 0
    looked: int = 0
    sequence: int = 0
    strange: int = 0
    """Inputs unlike the reference."""


class Fleet:
    def __init__(self, material: Material, seed: int, settings: DriftSettings) -> None:
        self._material = material
        self._rng = np.random.default_rng(seed)
        self._answers = np.asarray([not one.is_input for one in material.reference.features])
        self._ordered = np.concatenate(material.by_class)
        self._sizes = np.asarray([len(one) for one in material.by_class])
        self._begins = np.cumsum(self._sizes) - self._sizes
        self.watch = Watch(settings)
        self.watch.know(material.reference)
        self.cameras = [camera for at in range(GROUPS) for camera in self._site(f"site-{at}")]

    def report(
        self, camera: _Camera, now: float, shift: str | None = None, samples: float = SAMPLES
    ) -> int:
        """Let it see so many, on average, and report; how many it saw. `now` gives the light."""
        count = int(self._rng.poisson(samples))
        day = 0.5 - 0.5 * math.cos(2 * math.pi * now / DAY_S)
        proportions = day * camera.classes + (1 - day) * camera.by_night
        lit = light(LIGHT[round(day * (len(LIGHT) - 1))])
        places = self._material.places[lit if shift is None else shift]
        bins = places[self._draw(count, proportions)]
        camera.strange += 0 if shift in {None, *UNSEEN} else count
        looked = slice(None) if camera.strange > NOTICED else slice(None, None, EVERY)
        np.add.at(camera.row, bins[:, self._answers].ravel(), 1)
        np.add.at(camera.row, bins[looked][:, ~self._answers].ravel(), 1)
        camera.samples += count
        camera.looked += len(bins[looked])
        camera.sequence += 1
        self.watch.feed(camera.name, camera.group, self._telemetry(camera, now), now)
        return count

    def _site(self, name: str) -> list[_Camera]:
        rng, classes = self._rng, len(self._material.by_class)
        by_day, by_night = rng.dirichlet([_SITE] * classes), rng.dirichlet([_SITE] * classes)
        width = self._material.reference.width
        return [
            _Camera(
                f"{name}-camera-{at}", name, rng.dirichlet(by_day * _DEVICE + 0.1),
                rng.dirichlet(by_night * _DEVICE + 0.1), np.zeros(width, np.int64),
            )
            for at in range(DEVICES)
        ]  # fmt: skip

    def _draw(self, count: int, proportions: NDArray[np.float64]) -> NDArray[np.intp]:
        """Indices of images."""
        edges = np.cumsum(proportions)[:-1]
        labels = np.searchsorted(edges, self._rng.random(count), side="right")
        within = (self._rng.random(count) * self._sizes[labels]).astype(np.intp)
        return np.asarray(self._ordered[self._begins[labels] + within])

    def _telemetry(self, camera: _Camera, now: float) -> Telemetry:
        reference = self._material.reference
        return Telemetry(
            boot=f"{1:016x}", sequence=camera.sequence, at=now, uptime_s=now, interval_s=REPORT_S,
            tally=Tally(
                model=reference.model, version=reference.version, samples=camera.samples
            ),
            sketches=Sketches(
                reference=reference.hash, looked=camera.looked,
                counts={
                    one.name: tuple(camera.row[one.begin : one.end].tolist())
                    for one in reference.features
                },
            ),
        )  # fmt: skip


def run(stream: Stream, material: Material, settings: DriftSettings) -> Outcome:
    """Until the scope is named, or a simulated day where nothing drifts."""
    fleet = Fleet(material, stream.seed, settings)
    if stream.shift is None:
        return _quiet(fleet, stream.seed)
    drifted = _drifted(fleet, stream.where)
    scopes = _scopes(fleet, drifted, stream.where)
    outcome = Outcome()
    counted = dict.fromkeys(scopes, 0)
    now = float(stream.seed % 24) * 3600
    for turn in range(BEFORE + AFTER_MAX):
        now += REPORT_S
        began = turn >= BEFORE
        for at, camera in enumerate(fleet.cameras):
            kind = stream.shift if began and camera.name in drifted else None
            count = fleet.report(camera, now, kind, SAMPLES if began else SAMPLES_BEFORE)
            if began:
                for scope in counted:
                    if scope[1] in (camera.name, camera.group, "fleet"):
                        counted[scope] += count
            if at % (DEVICES if began else len(fleet.cameras)):
                continue  # then a look as each group has reported
            if _take(fleet, now + at, drifted, outcome, scopes):
                outcome.delay = min(
                    counted[scope] for scope in scopes if _is_on(fleet, scope)
                )  # fmt: skip
                return outcome
    return outcome


def _quiet(fleet: Fleet, seed: int) -> Outcome:
    """A day, with a report and a look each ten minutes."""
    outcome, period = Outcome(), 600.0
    now = float(seed % 24) * 3600
    end = now + DAY_S
    while now < end:
        now += period
        for camera in fleet.cameras:
            fleet.report(camera, now, samples=SAMPLES_BEFORE)
        _take(fleet, now, frozenset(), outcome, ())
    outcome.days = 1.0
    return outcome


def _take(
    fleet: Fleet, now: float, drifted: frozenset[str], outcome: Outcome,
    scopes: Sequence[tuple[str, str]],
) -> bool:  # fmt: skip
    """Look; whether a scope that drifts is named."""
    for change in fleet.watch.look(now):
        if isinstance(change, Opened) and change.alarm.kind in _KINDS:
            scope = change.alarm.scope
            if not _explains(fleet, scope.kind, scope.name, drifted):
                outcome.wrong.append(change.alarm)
    return any(_is_on(fleet, scope) for scope in scopes)


def _explains(fleet: Fleet, kind: str, name: str, drifted: frozenset[str]) -> bool:
    """Most of the scope drifts."""
    of_it = [
        one.name in drifted for one in fleet.cameras
        if kind == "fleet" or name in (one.name, one.group)
    ]  # fmt: skip
    return sum(of_it) >= len(of_it) / 2


def _is_on(fleet: Fleet, scope: tuple[str, str]) -> bool:
    return any(
        (alarm.scope.kind, alarm.scope.name) == scope and alarm.kind in _KINDS
        for alarm in fleet.watch.board.alarms.values()
    )


def _drifted(fleet: Fleet, where: Where) -> frozenset[str]:
    names = [one.name for one in fleet.cameras]
    count = {
        "a device": 1, "half a group": DEVICES // 2, "a group": DEVICES,
        "half the fleet": len(names) // 2, "the fleet": len(names),
    }[where]  # fmt: skip
    return frozenset(names[:count])


def _scopes(fleet: Fleet, drifted: frozenset[str], where: Where) -> tuple[tuple[str, str], ...]:
    """Any of which, named, is right and soon enough."""
    devices = tuple(("device", name) for name in sorted(drifted))
    if where == "a device":
        return devices
    if where == "the fleet":
        return (("fleet", "fleet"),)
    groups = {one.group for one in fleet.cameras if one.name in drifted}
    named = tuple(("group", group) for group in sorted(groups))
    return named + devices if where == "half a group" else named
