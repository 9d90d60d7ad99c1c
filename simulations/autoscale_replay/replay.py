"""Run both policies over a recorded load. Pure."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from cloud.capacity import autoscaling
from cloud.capacity.autoscaling import Load, Scaling
from simulations.autoscale_replay.fleet import Fleet, Machine, Second, Worker
from simulations.autoscale_replay.threshold import Cpu, Threshold

Policy = Literal["qps at sla", "cpu 70%"]
PERIOD_S: Final = 15
"""Between two looks, of both."""
_RATE_WINDOW_S: Final = 60
"""Of `rate(...[1m])`, by which the emitted manifests scale: the policy sees the load that late."""
_CPU_WINDOW_S: Final = 30
"""Of the metrics server."""


@dataclass(frozen=True, slots=True)
class Outcome:
    policy: Policy
    asked: float
    over: float
    """Late or refused."""
    worker_hours: float
    workers_max: int
    workers: tuple[Worker, ...]
    """All that there ever were."""

    @property
    def over_share(self) -> float:
        return self.over / self.asked if self.asked else 0.0


def replay(
    policy: Policy, rates: Sequence[float], stands_for_s: float, machine: Machine, scaling: Scaling
) -> Outcome:
    """`rates`: requests a second, each for `stands_for_s`. Both policies begin with what the first
    rate needs, ready.
    """
    begin = autoscaling.first(scaling, rates[0])
    fleet = Fleet(machine, [Worker(0.0) for _ in range(begin.workers)])
    scaler = _ByQps(scaling, begin) if policy == "qps at sla" else _ByCpu(scaling, begin.workers)
    asked = over = 0.0
    most = begin.workers
    for now_s in range(round(len(rates) * stands_for_s)):
        seen = fleet.second(now_s, rates[int(now_s / stands_for_s)])
        asked, over = asked + seen.asked, over + seen.over
        wanted = scaler.wanted(now_s, seen, fleet)
        fleet.want(wanted, now_s)
        most = max(most, wanted)
    return Outcome(
        policy, asked, over, fleet.worker_s / 3600, most, tuple(fleet.workers + fleet.gone)
    )


class _ByQps:
    """`cloud.capacity.autoscaling`, by the load that was offered."""

    def __init__(self, scaling: Scaling, begin: autoscaling.Wanted) -> None:
        self._scaling, self._state = scaling, begin
        self._asked: deque[float] = deque(maxlen=_RATE_WINDOW_S)

    def wanted(self, now_s: float, seen: Second, fleet: Fleet) -> int:
        self._asked.append(seen.asked)
        if now_s % PERIOD_S == PERIOD_S - 1:
            qps = sum(self._asked) / len(self._asked)
            self._state = autoscaling.step(
                self._scaling, self._state, Load(now_s, qps, fleet.ready(now_s))
            )
        return self._state.workers


class _ByCpu:
    def __init__(self, scaling: Scaling, begin: int) -> None:
        self._scaler = Threshold(scaling.workers_min, scaling.workers_max, begin)
        self._used: deque[float] = deque(maxlen=_CPU_WINDOW_S)

    def wanted(self, now_s: float, seen: Second, fleet: Fleet) -> int:
        self._used.append(seen.utilisation)
        if now_s % PERIOD_S == PERIOD_S - 1:
            ready = fleet.ready(now_s)
            used = sum(self._used) / len(self._used)
            self._scaler.look(Cpu(now_s, used, ready, len(fleet.workers) - ready))
        return self._scaler.wanted
