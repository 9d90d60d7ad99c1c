"""Places calls and escalations into arms. Belongs to one event loop."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cloud.experiments.arm import ArmCounts
from cloud.experiments.placing import UNIT_CHARACTERS_MAX, arm_at, position
from cloud.experiments.settings import Experiment
from cloud.serving.served import Served
from shared.errors import Malformed, Unavailable, Unknown

UNIT = "Hybridge-Unit"
"""The header that says for which user or device a call is."""
Find = Callable[[str, str | None], Served]


@dataclass(frozen=True, slots=True)
class Placed:
    served: Served
    arm: ArmCounts


class Running:
    """One experiment with its counts."""

    def __init__(self, settings: Experiment) -> None:
        self.settings = settings
        self._shares = tuple(arm.share for arm in settings.arms)
        self.arms = tuple(ArmCounts(arm.version) for arm in settings.arms)
        self.unplaced = 0
        """Calls that named nobody."""

    def arm_of(self, unit: str) -> ArmCounts:
        return self.arms[arm_at(self._shares, position(self.settings.name, unit))]


class Experiments:
    def __init__(self, settings: Sequence[Experiment], find: Find) -> None:
        """`find(model, version)` is `ModelPool.find`."""
        self._find = find
        self.running = tuple(map(Running, settings))
        self._by_model = {one.settings.model: one for one in self.running}

    def __bool__(self) -> bool:
        return bool(self.running)

    def place(self, model: str, unit: str | None) -> Placed | None:
        """Who answers `unit`'s call of `model`; None where the model's own version does: there is no
        experiment, the call is nobody's, or the arm's version cannot answer now, which is counted.

        Raises `Malformed` for a unit that is no name.
        """
        running = self._by_model.get(model)
        if running is None:
            return None
        if unit is None:
            running.unplaced += 1
            return None
        if not 0 < len(unit) <= UNIT_CHARACTERS_MAX or not unit.isprintable():
            raise Malformed(
                f"{UNIT}: send 1 to {UNIT_CHARACTERS_MAX} printable characters that name a user or "
                "a device"
            )
        arm = running.arm_of(unit)
        try:
            return Placed(self._find(model, arm.version), arm)
        except (Unavailable, Unknown):
            arm.fell_back += 1
            return None
