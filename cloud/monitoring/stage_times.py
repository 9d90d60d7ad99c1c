"""Where the time of a request goes: a histogram by stage that costs a quarter of a microsecond.

prometheus_client's own takes a lock, a loop over the buckets and three objects for each
observation, which is more than some of the stages that are timed here. Same text at `/metrics`.
Written by one thread, the event loop's; a scrape that comes between two additions is off by one.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector, CollectorRegistry

Stage = Literal["network", "decode", "queue", "model", "encode", "total", "publish", "store"]
"""network: from a request's first byte to its last. decode: bytes to rows. queue: admitted, not
yet running. model: the batch runs. encode: outputs to bytes, handed to the socket. total: from a
call's last byte to its answer's. publish, store: an escalation's answer to its PUBACK, its row to
its commit."""

EDGES_S = tuple(
    ms / 1e3 for ms in (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500)
)
_EDGES = np.array(EDGES_S)


class StageTime:
    """One stage's histogram."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(EDGES_S) + 1)  # by bucket, not cumulative; the last is the rest
        self.sum_s = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(EDGES_S, seconds)] += 1
        self.sum_s += seconds

    def observe_all(self, seconds: NDArray[np.float64]) -> None:
        """Of many at once: a twentieth of what each costs by itself."""
        found = np.bincount(np.searchsorted(_EDGES, seconds), minlength=len(self.counts))
        self.counts = [a + b for a, b in zip(self.counts, found.tolist(), strict=True)]
        self.sum_s += float(seconds.sum())

    @property
    def count(self) -> int:
        return sum(self.counts)


class StageTimes(Collector):
    """By stage: `times["queue"].observe(seconds)`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.catch_up: Callable[[], None] = lambda: None
        """Called before anybody reads; for who observes many at once."""
        self._stages: dict[Stage, StageTime] = {stage: StageTime() for stage in get_args(Stage)}
        registry.register(self)

    def __getitem__(self, stage: Stage) -> StageTime:
        return self._stages[stage]

    def collect(self) -> Iterator[HistogramMetricFamily]:
        self.catch_up()
        family = HistogramMetricFamily("hybridge_stage_seconds", "Time by stage", labels=["stage"])
        for stage, time in self._stages.items():
            family.add_metric([stage], _cumulative(time.counts), time.sum_s)
        yield family


def _cumulative(counts: Sequence[int]) -> list[tuple[str, float]]:
    edges = [*map(str, EDGES_S), "+Inf"]
    return [(edge, float(n)) for edge, n in zip(edges, accumulate(counts), strict=True)]
