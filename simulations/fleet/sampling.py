"""What a plot and a summary need of a run: the rollout's view now and then, and the faults."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cloud.rollouts.documents import RolloutView
from simulations.fleet.agenda import EPOCH

if TYPE_CHECKING:
    from simulations.fleet.world import World

SAMPLES_MAX = 2_000


@dataclass(frozen=True, slots=True)
class Fault:
    at_s: float
    kind: str
    words: str


@dataclass(slots=True)
class Samples:
    """Times in seconds since the start."""

    views: list[tuple[float, RolloutView]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def look(self, world: "World") -> None:
        rollout = world.rollout
        if rollout is not None and len(self.views) < SAMPLES_MAX:
            now = world.agenda.now
            self.views.append((now - EPOCH, rollout.view(now)))

    def record(self, now: float, kind: str, name: str, what: object) -> None:
        """As `World` calls it; only faults and ends of the control plane are kept."""
        if kind == "fault":
            self.faults.append(Fault(now - EPOCH, name, str(what)))
        elif kind == "killed":
            self.faults.append(Fault(now - EPOCH, "control plane killed", str(what)))
