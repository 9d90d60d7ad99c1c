"""What the queue knows of time: costs by size, what runs until when, and the gap between. Pure.

Times are seconds of one monotonic clock.
"""

from bisect import bisect_right
from math import inf

from cloud.serving.batch_rules import BatchRules
from cloud.serving.latency_curve import LatencyCurve

_NEARLY_BEST = 0.9  # of the best rows a second: a batch that others may wait behind
_NO_WORSE = 0.98
_GAP_WEIGHT = 0.05
_GAP_S_MAX = 0.1  # a machine that was suspended is not a slow machine


class Pace:
    """Plain attributes, because the queue reads several of them for each job."""

    def __init__(self, curve: LatencyCurve, rules: BatchRules, lanes: int) -> None:
        """`lanes`: batches that run at once. With more than one, times are Graham's bound for list
        scheduling: what runs and what waits, spread evenly.
        """
        self._curve, self._rules, self._lanes = curve, rules, lanes
        self.full_at = curve.efficient(rules.preferred or (rules.size_max,), _NO_WORSE)
        """Rows at which a batch closes."""
        self.efficient = curve.efficient(range(1, self.full_at + 1), _NEARLY_BEST)
        """Rows from which on more give little more throughput."""
        self.free_at = 0.0
        """When the next batch can start; in the past if one could now."""
        self.gap_s = 0.0
        """From a batch's end to the start of the next one while some wait, as of late: reading,
        sending, and a thread's wake-up, during which the model does not run."""
        self._running: list[float] = []  # when each will end
        self._ended_at = 0.0
        self._behind = False
        self._revision = -1  # none read yet
        self.read_curve()

    def read_curve(self) -> bool:
        """Make new tables if the curve has learnt; whether it has."""
        curve, rules = self._curve, self._rules
        if self._revision == curve.revision:
            return False
        self._revision = curve.revision
        self.cost_s = [0.0, *(curve.cost_s(rows + 1) for rows in range(rules.size_max))]
        p99_s = inf if rules.p99_s is None else rules.p99_s
        # a target below what the model can do would refuse everything: there is always room for
        # one that runs and one's own
        self.target_s = [max(p99_s, 2 * cost_s) for cost_s in self.cost_s]
        share_s = self.cost_s[-1] if rules.p99_s is None else rules.bulk_share * rules.p99_s
        self.delay_s = share_s / 2
        self.slice = max(1, bisect_right(self.cost_s, self.delay_s) - 1)
        return True

    def batch_s(self, rows: int) -> float:
        """By how much a batch delays those behind it."""
        return (self.cost_s[rows] + self.gap_s) / self._lanes

    def room(self, left_s: float) -> int:
        """Rows that a batch behind others must have time for; less where time is very short."""
        roomy = 3 * self.cost_s[self.full_at] <= left_s  # one that runs, one that waits, one's own
        return self.full_at if roomy else self.efficient

    def filled(self, rows: int) -> int:
        """Up to how many rows an interactive batch may be filled up, if it has the time."""
        return bisect_right(self.cost_s, self.cost_s[rows] + self.delay_s) - 1

    def started(self, rows: int, now: float) -> float:
        """A batch leaves; returns when it should end, which is its name for `ended`."""
        ends_at = now + self.cost_s[rows] + self.gap_s
        self._running.append(ends_at)
        if len(self._running) >= self._lanes:
            self.free_at = sum(self._running) / self._lanes
        return ends_at

    def ended(self, ends_at: float, now: float, *, behind: bool) -> None:
        """`behind`: others wait already."""
        self._running.remove(ends_at)
        self.free_at = 0.0
        self._ended_at, self._behind = now, behind

    def learn_gap(self, now: float) -> None:
        """The next batch starts. Where none waited the gap is 0, so that one bad one is forgotten
        even by a queue that refuses everybody because of it.
        """
        gap_s = min(now - self._ended_at, _GAP_S_MAX) if self._behind else 0.0
        self.gap_s += _GAP_WEIGHT * (gap_s - self.gap_s)
        self._behind = False
