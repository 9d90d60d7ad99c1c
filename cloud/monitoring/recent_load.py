"""How busy this process was in the last seconds, and how long its callers waited. Pure.

For who makes way for it (an offline batch) and who plans by it (an autoscaler): a histogram since
the start says nothing about now.
"""

from bisect import bisect_left
from collections import deque

import numpy as np
from numpy.typing import NDArray

_STEP = 1.1  # between edges: a percentile is at most a tenth too high
_EDGES_S = tuple(0.000_05 * _STEP**power for power in range(120))  # 50 us to 4 s
_EDGES = np.array(_EDGES_S)


class RecentLoad:
    """`observe` each interactive answer; `tick` about once a second."""

    __slots__ = ("_busy", "_counts", "_now_counts", "_window")

    def __init__(self, window: int = 5) -> None:
        """`window`: ticks that count."""
        self._window = window
        self._now_counts = [0] * (len(_EDGES_S) + 1)
        self._counts: deque[list[int]] = deque(maxlen=window)
        self._busy: deque[tuple[float, float]] = deque(maxlen=window + 1)

    def observe(self, seconds: float) -> None:
        """A request's time from its arrival to its answer: 0.2 us."""
        self._now_counts[bisect_left(_EDGES_S, seconds)] += 1

    def observe_all(self, seconds: NDArray[np.float64]) -> None:
        """Of many at once."""
        found = np.bincount(np.searchsorted(_EDGES, seconds), minlength=len(self._now_counts))
        self._now_counts = [a + b for a, b in zip(self._now_counts, found.tolist(), strict=True)]

    def tick(self, now: float, busy_s: float) -> None:
        """`busy_s`: seconds in which models have run since the start."""
        self._counts.append(self._now_counts)
        self._now_counts = [0] * (len(_EDGES_S) + 1)
        self._busy.append((now, busy_s))

    @property
    def busy_share(self) -> float:
        """Of the window, 0 to 1: models in several threads count as one that always runs."""
        if len(self._busy) < 2:
            return 0.0
        (then, before_s), (now, busy_s) = self._busy[0], self._busy[-1]
        return min(1.0, max(0.0, (busy_s - before_s) / (now - then))) if now > then else 0.0

    @property
    def p99_s(self) -> float | None:
        """None where nobody asked."""
        totals = [sum(counts) for counts in zip(*self._counts, self._now_counts, strict=True)]
        left = sum(totals) * 0.99
        if not left:
            return None
        for edge_s, count in zip(_EDGES_S, totals, strict=False):
            left -= count
            if left <= 0:
                return edge_s
        return _EDGES_S[-1]
