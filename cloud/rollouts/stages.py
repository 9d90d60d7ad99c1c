"""The stages of a rollout, and how its devices stand in each. Plain data, counted as it changes."""

import itertools
from dataclasses import dataclass, field
from typing import Literal

from cloud.rollouts.documents import ModelSubject, Phase, RolloutSpec
from cloud.rollouts.placing import cuts

Kind = Literal["shadow", "canary", "wave", "watch"]

FAILED: frozenset[Phase] = frozenset(
    {Phase.REJECTED, Phase.FAILED, Phase.ROLLED_BACK, Phase.TIMED_OUT, Phase.SILENT}
)
INSTALLING: frozenset[Phase] = frozenset(
    {Phase.ACCEPTED, Phase.DOWNLOADING, Phase.VERIFIED, Phase.STAGED, Phase.TRIAL}
)
GONE: frozenset[Phase] = frozenset({Phase.LEFT, Phase.UNDOING, Phase.UNDONE})


@dataclass(slots=True)
class Stage:
    kind: Kind
    number: int
    first: int
    """Place in the order of its first device."""
    end: int
    """One after its last. The shadow has the canary's devices, the watch all of them."""
    opened_at: float | None = None
    ended_at: float | None = None
    took_at: float | None = None
    """When a device took the version last, in this stage."""
    asked_at: float | None = None
    """When waiting for evidence began (again): it asks a person after a while."""
    samples: int = 0
    """Live inferences of the cohort on the new version since it opened."""
    unseen_s: float = 0.0
    """Seconds since it opened, or since a device took the version last, in which nobody looked."""
    ends_after: float | None = None
    """After such a gap it lasts until then at least, so that who fell silent meanwhile is seen."""
    approved: bool = False
    skipped: bool = False


@dataclass(slots=True)
class Standing:
    """Devices by phase: of each cut (canary, waves), kept up to date by whoever changes a phase."""

    counts: list[dict[Phase, int]] = field(default_factory=list)

    def moved(self, cut: int, before: Phase, after: Phase) -> None:
        count = self.counts[cut]
        count[before] -= 1
        count[after] = count.get(after, 0) + 1

    def of(self, first: int, end: int) -> dict[Phase, int]:
        """Of the cuts `first` to before `end`."""
        total: dict[Phase, int] = {}
        for count in self.counts[first:end]:
            for phase, number in count.items():
                total[phase] = total.get(phase, 0) + number
        return {phase: total[phase] for phase in Phase if total.get(phase)}


def stages_of(spec: RolloutSpec, devices: int) -> list[Stage]:
    ends = cuts(devices, spec.canary, spec.waves)
    stages: list[Stage] = []
    if spec.shadow_s > 0 and isinstance(spec.subject, ModelSubject):
        stages.append(Stage("shadow", 1, 0, ends[0]))
    stages.append(Stage("canary", 1, 0, ends[0]))
    for number, (first, end) in enumerate(itertools.pairwise(ends), start=1):
        stages.append(Stage("wave", number, first, end))
    stages.append(Stage("watch", 1, 0, devices))
    return stages
