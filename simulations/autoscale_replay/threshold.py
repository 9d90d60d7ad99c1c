"""What most fleets scale by: a CPU threshold, as Kubernetes' HorizontalPodAutoscaler does it. Pure.

Source: kubernetes.io, "Horizontal Pod Autoscaling", algorithm details: desired = ceil(current *
utilisation / target) outside of a tolerance; pods that are not ready count as idle when scaling up;
up by the larger of 100% and 4 pods in 15 s; down to the largest wish of the last 300 s.
"""

import math
from collections import deque
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Cpu:
    """`utilisation`: mean over the ready ones, 0 to 1."""

    now_s: float
    utilisation: float
    ready: int
    starting: int


@dataclass(slots=True)
class Threshold:
    """One autoscaler; `wanted` is its number of workers."""

    workers_min: int
    workers_max: int
    wanted: int
    target: float = 0.7
    tolerance: float = 0.1
    stabilisation_s: float = 300.0
    _wishes: deque[tuple[float, int]] = field(default_factory=deque)

    def look(self, seen: Cpu) -> None:
        """Called every 15 s, in the order of time."""
        wish = min(max(self._wish(seen), self.workers_min), self.workers_max)
        self._wishes.append((seen.now_s, wish))
        while self._wishes[0][0] < seen.now_s - self.stabilisation_s:
            self._wishes.popleft()
        if wish > self.wanted:
            self.wanted = min(wish, max(self.wanted * 2, self.wanted + 4))
        else:
            self.wanted = min(self.wanted, max(one for _, one in self._wishes))

    def _wish(self, seen: Cpu) -> int:
        if not seen.ready:
            return self.wanted
        ratio, count = seen.utilisation / self.target, seen.ready
        if ratio > 1 and seen.starting:
            count += seen.starting
            ratio = seen.utilisation * seen.ready / count / self.target
            if ratio < 1:
                return self.wanted
        if abs(ratio - 1) <= self.tolerance:
            return self.wanted
        return math.ceil(ratio * count - 1e-9)
