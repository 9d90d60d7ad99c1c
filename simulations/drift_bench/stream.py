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
from cloud.monitoring.drift.reference import of_manifest
from cloud.monitoring.drift.settings import DriftSettings
from cloud.monitoring.drift.watch import Watch
from simulations.drift_bench.camera import Camera
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
DAY_S: Final = 86_400.0
Scope = tuple[str, str]
"""Kind and name."""
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


class Fleet:
    def __init__(self, material: Material, seed: int, settings: DriftSettings) -> None:
        self._material = material
        self._rng = np.random.default_rng(seed)
        self._ordered = np.concatenate(material.by_class)
        self._sizes = np.asarray([len(one) for one in material.by_class])
        self._begins = np.cumsum(self._sizes) - self._sizes
        self.watch = Watch(settings)
        self.watch.know(of_manifest(material.manifest))
        self.cameras = [camera for at in range(GROUPS) for camera in self._site(f"site-{at}")]

    def report(
        self, camera: Camera, now: float, shift: str | None = None, samples: float = SAMPLES
    ) -> int:
        """Let it see so many, on average, and report; how many it saw. `now` gives the light."""
        count = int(self._rng.poisson(samples))
        day = 0.5 - 0.5 * math.cos(2 * math.pi * now / DAY_S)
        lit = light(LIGHT[round(day * (len(LIGHT) - 1))])
        scene = self._material.scenes[lit if shift is None else shift]
        camera.see(scene, self._draw(count, camera.proportions(day)), now)
        self.watch.feed(camera.name, camera.group, camera.report(now, REPORT_S), now)
        return count

    def _site(self, name: str) -> list[Camera]:
        rng, classes = self._rng, len(self._material.by_class)
        by_day, by_night = rng.dirichlet([_SITE] * classes), rng.dirichlet([_SITE] * classes)
        return [
            Camera(
                f"{name}-camera-{at}", name, self._material.manifest,
                rng.dirichlet(by_day * _DEVICE + 0.1), rng.dirichlet(by_night * _DEVICE + 0.1),
            )
            for at in range(DEVICES)
        ]  # fmt: skip

    def _draw(self, count: int, proportions: NDArray[np.float64]) -> list[int]:
        """Indices of images."""
        edges = np.cumsum(proportions)[:-1]
        labels = np.searchsorted(edges, self._rng.random(count), side="right")
        within = (self._rng.random(count) * self._sizes[labels]).astype(np.intp)
        found: list[int] = self._ordered[self._begins[labels] + within].tolist()
        return found


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
    for _ in range(BEFORE):
        now += REPORT_S
        for camera in fleet.cameras:
            fleet.report(camera, now, samples=SAMPLES_BEFORE)
        take(fleet, now, frozenset(), outcome, (), now)
    began_at = now
    for _ in range(AFTER_MAX):
        now += REPORT_S
        for at, camera in enumerate(fleet.cameras):
            kind = stream.shift if camera.name in drifted else None
            count = fleet.report(camera, now, kind)
            for scope in counted:
                if scope[1] in (camera.name, camera.group, "fleet"):
                    counted[scope] += count
            if at % DEVICES:
                continue  # a look as each group has reported
            named = take(fleet, now + at, drifted, outcome, scopes, began_at)
            if named:
                outcome.delay = min(counted[scope] for scope in named)
                return outcome
    return outcome


def _quiet(fleet: Fleet, seed: int) -> Outcome:
    """A day of the same reports, and a look at each round of them."""
    outcome = Outcome()
    now = float(seed % 24) * 3600
    end = now + DAY_S
    while now < end:
        now += REPORT_S
        for camera in fleet.cameras:
            fleet.report(camera, now)
        take(fleet, now, frozenset(), outcome, (), now)
    outcome.days = 1.0
    return outcome


def take(
    fleet: Fleet, now: float, drifted: frozenset[str], outcome: Outcome, scopes: Sequence[Scope],
    since: float,
) -> list[Scope]:  # fmt: skip
    """Look; which of `scopes` have an alarm that opened after `since`. Alarms that nothing explains count
    as wrong, those before a drift too.
    """
    for change in fleet.watch.look(now):
        if isinstance(change, Opened) and change.alarm.kind in _KINDS:
            scope = change.alarm.scope
            if not _explains(fleet, scope.kind, scope.name, drifted):
                outcome.wrong.append(change.alarm)
    named = {
        (one.scope.kind, one.scope.name) for one in fleet.watch.board.alarms.values()
        if one.kind in _KINDS and one.opened_at > since
    }  # fmt: skip
    return [scope for scope in scopes if scope in named]


def _explains(fleet: Fleet, kind: str, name: str, drifted: frozenset[str]) -> bool:
    """Half of the scope drifts, or more."""
    of_it = [
        one.name in drifted for one in fleet.cameras
        if kind == "fleet" or name in (one.name, one.group)
    ]  # fmt: skip
    return sum(of_it) >= len(of_it) / 2


def _drifted(fleet: Fleet, where: Where) -> frozenset[str]:
    names = [one.name for one in fleet.cameras]
    count = {
        "a device": 1, "half a group": DEVICES // 2, "a group": DEVICES,
        "half the fleet": len(names) // 2, "the fleet": len(names),
    }[where]  # fmt: skip
    return frozenset(names[:count])


def _scopes(fleet: Fleet, drifted: frozenset[str], where: Where) -> tuple[Scope, ...]:
    """Any of which, named, is right and soon enough."""
    devices = tuple(("device", name) for name in sorted(drifted))
    if where == "a device":
        return devices
    if where == "the fleet":
        return (("fleet", "fleet"),)
    groups = {one.group for one in fleet.cameras if one.name in drifted}
    named = tuple(("group", group) for group in sorted(groups))
    return named + devices if where == "half a group" else named
