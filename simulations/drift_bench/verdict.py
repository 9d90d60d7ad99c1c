"""What is said about a fleet of which it is known what drifts: when, about whom, and with what cause. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from cloud.monitoring.drift.board import FLEET, Change
from cloud.monitoring.drift.documents import Alarm, Cause, Kind, Scope
from cloud.monitoring.drift.opened import Opened
from simulations.drift_bench.camera import Camera

Where = Literal["a device", "half a group", "a group", "half the fleet", "the fleet"]
Named = tuple[str, str]
"""Kind and name of a scope."""
_KINDS: Final = frozenset({Kind.INPUT, Kind.ANSWER})
"""What shifts bring. They leave no image empty, nobody falls silent, and nobody audits."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One thing that is to be said."""

    of: str
    """Whose samples it may take."""
    any_of: frozenset[Named]
    """Scopes of which an alarm says it."""


@dataclass(slots=True)
class Outcome:
    delays: list[int | None] = field(default_factory=list)
    """For each thing that was wanted: samples that were reported from the first that drifted until
    the look that said it; None: it was never said."""
    right: list[Alarm] = field(default_factory=list)
    """Alarms about scopes that drift."""
    wrong: list[Alarm] = field(default_factory=list)
    """All others, of whatever kind, those before the drift among them."""
    days: float = 0.0


class Verdict:
    """A scope drifts where half of its cameras do, or more; the fleet where more than half of them do."""

    def __init__(
        self, cameras: Sequence[Camera], drifting: frozenset[str], wanted: Sequence[Wanted]
    ) -> None:
        """`drifting`: names of cameras."""
        self._cameras, self._drifting, self._wanted = cameras, drifting, wanted
        self._reported = Counter[str]()
        self.outcome = Outcome([None] * len(wanted))

    def is_drifting(self, camera: Camera) -> bool:
        return camera.name in self._drifting

    def reported(self, camera: Camera, count: int) -> None:
        """So many more samples, seen since the drift began."""
        for name in (camera.name, camera.group, FLEET):
            self._reported[name] += count

    def looked(self, changes: Iterable[Change]) -> None:
        for change in changes:
            if not isinstance(change, Opened):
                continue
            alarm = change.alarm
            if alarm.kind not in _KINDS or not self._drifts(alarm.scope):
                self.outcome.wrong.append(alarm)
                continue
            self.outcome.right.append(alarm)
            for at, one in enumerate(self._wanted):
                named = (alarm.scope.kind, alarm.scope.name) in one.any_of
                if named and self.outcome.delays[at] is None:
                    self.outcome.delays[at] = self._reported[one.of]

    def _drifts(self, scope: Scope) -> bool:
        if not self._reported[scope.name]:  # not yet
            return False
        of_it = [
            self.is_drifting(one) for one in self._cameras
            if scope.kind == "fleet" or scope.name in (one.name, one.group)
        ]  # fmt: skip
        if scope.kind == "fleet":
            return sum(of_it) > len(of_it) / 2
        return sum(of_it) >= len(of_it) / 2


def right_cause(where: Where, alarm: Alarm) -> Cause:
    """Of an alarm about a scope that drifts. Of one camera among several nobody can tell whether all
    of them are broken or the scene has changed.
    """
    if alarm.scope.kind != "device":
        return Cause.SCENE
    return Cause.SENSOR if where == "a device" else Cause.UNKNOWN


def misleads(where: Where, alarm: Alarm) -> bool:
    """Its cause is another one than the right one, and not that nobody knows."""
    return alarm.cause not in {right_cause(where, alarm), Cause.UNKNOWN}


def drifting_cameras(cameras: Sequence[Camera], where: Where) -> frozenset[str]:
    """Names of the first ones."""
    in_group = sum(one.group == cameras[0].group for one in cameras)
    count = {
        "a device": 1, "half a group": in_group // 2, "a group": in_group,
        "half the fleet": len(cameras) // 2, "the fleet": len(cameras),
    }[where]  # fmt: skip
    return frozenset(one.name for one in cameras[:count])


def wanted_of(cameras: Sequence[Camera], where: Where) -> tuple[Wanted, ...]:
    """Each group that drifts is to be named; of half a group, it or any camera that drifts; of the
    fleet, the fleet.
    """
    drifting = sorted(drifting_cameras(cameras, where))
    groups = sorted({one.group for one in cameras if one.name in drifting})
    if where == "the fleet":
        return (Wanted(FLEET, frozenset({("fleet", FLEET)})),)
    if where == "a device":
        return tuple(Wanted(name, frozenset({("device", name)})) for name in drifting)
    devices = {("device", name) for name in drifting} if where == "half a group" else set()
    return tuple(Wanted(name, frozenset({("group", name)} | devices)) for name in groups)
