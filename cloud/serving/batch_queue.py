"""Which jobs share a batch, when it leaves, and which cannot be answered in time. Pure.

An interactive job joins a batch when it is added, so its answer's time is known at that moment:
what runs now, then the batches ahead of it, then its own. It is admitted only if that is within its
deadline and the target p99, and makes no batch mate late; so a promise once made holds as long as
the curve does, and overload is a prompt refusal (compare Clockwork, OSDI 2020, and Nexus, SOSP
2019). Behind a backlog a batch is opened only where a full one would be in time as well: otherwise
each would be closed by its first member's limit, and overload would be served one by one.

Near-line and bulk jobs take what is left over (`background.py`). All of them together delay an
interactive job by no more than `bulk_share` of the target: half of it for the batch of theirs that
runs when it comes, half for those that fill up its own batch.
"""

# ruff: noqa: FURB136, PLR1730  (in the common case a call of `min` would be a tenth of the cost)

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from math import inf
from typing import Generic

from cloud.serving.arrivals import ArrivalRate
from cloud.serving.background import Background, J
from cloud.serving.company import company
from cloud.serving.latency_curve import LatencyCurve
from shared.errors import DeadlineMissed, Malformed, Overloaded, TooLarge

_INTERACTIVE = 1
_ROUNDING_S = 1e-9  # the same sum, added up in another order
_EXPIRY_STEP_S = 0.001  # who waits is looked through no more often than this
_GAP_WEIGHT = 0.05
_GAP_S_MAX = 0.1  # a machine that was suspended is not a slow machine
_NEARLY_BEST = 0.9  # of the best rows a second: a batch that others may wait behind
_NO_WORSE = 0.98


class QueueFull(Overloaded):
    """Too many wait, or longer than the job can; `retry_after_s`: until the queue is clear."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s: float = retry_after_s


@dataclass(frozen=True, slots=True)
class BatchRules:
    """When a batch leaves, and who may wait. Raises ValueError for rules that contradict."""

    size_max: int = 32
    """Rows in a batch."""
    preferred: tuple[int, ...] = ()
    """Ascending sizes: a batch closes at the one of most rows a second by the curve, and these are
    what is waited for. Empty: it closes at `size_max`."""
    p99_s: float | None = None
    """Target for an interactive job's time in here, in seconds; what would take longer is refused,
    but never what is there alone. None: its deadline is all that counts."""
    wait_s_max: float = 0.0
    """How long an idle model may wait for company, where that pays (`company.py`). 0: never."""
    depth_max: int = 1024
    """Rows of one priority that may wait: a flood of bulk takes no place of an interactive job."""
    queue_s_max: tuple[float, float, float] = (inf, inf, inf)
    """Longest wait in seconds by priority, interactive first."""
    bulk_share: float = 0.1
    """Share of `p99_s` (None: of a full batch's seconds) by which near-line and bulk together may
    delay an interactive job."""

    def __post_init__(self) -> None:
        if not 0 < self.size_max <= self.depth_max:
            raise ValueError(f"size_max {self.size_max} must lie in 1..depth_max {self.depth_max}")
        ascending = sorted(set(self.preferred))
        if list(self.preferred) != ascending or any(not 0 < p <= self.size_max for p in ascending):
            raise ValueError(f"preferred {self.preferred}: ascending, each in 1..{self.size_max}")
        if self.p99_s is not None and self.p99_s <= 0:
            raise ValueError(f"p99_s {self.p99_s} must be above 0")
        if not 0 <= self.wait_s_max < inf or not 0 < self.bulk_share <= 1:
            raise ValueError("wait_s_max must be >= 0 and bulk_share in (0, 1]")
        if min(self.queue_s_max) <= 0:
            raise ValueError(f"queue_s_max {self.queue_s_max} must be above 0")


class Batch(Generic[J]):
    """Jobs in one order. `missed` are out of the queue too: the machine was slower than promised.

    `why` it left: full, preferred (a preferred size), idle (nothing ran), due (a wait was over, or
    company would have made somebody late), drained.
    """

    __slots__ = ("jobs", "leave_at", "limit", "missed", "rows", "target", "why")

    def __init__(self, jobs: list[J], rows: int, limit: float) -> None:
        self.jobs, self.rows = jobs, rows
        self.limit = limit  # the earliest of its members'
        self.missed: list[J] = []
        self.leave_at = 0.0  # while it waits for company, at the latest
        self.target = 0  # and the size it waits for
        self.why = ""  # set when it is closed


class BatchQueue(Generic[J]):
    """Times are seconds of one monotonic clock."""

    def __init__(self, curve: LatencyCurve, rules: BatchRules) -> None:
        self.rules, self._curve = rules, curve
        sizes = rules.preferred or (rules.size_max,)
        self._full_at = curve.efficient(sizes, _NO_WORSE)
        self._efficient = curve.efficient(range(1, self._full_at + 1), _NEARLY_BEST)
        self._targets = rules.preferred or (self._efficient, rules.size_max)
        self._depth_max = rules.depth_max
        self._batches: deque[Batch[J]] = deque()
        self._background = Background[J]()
        self._arrivals = ArrivalRate()
        self._interactive = self._counted = 0  # rows waiting; those `_arrivals` knows of
        self._free_at = self._ran_at = 0.0
        self._gap_s = 0.0  # from a batch's end to the start of the next, while some wait
        self._ahead_s = 0.0  # of every batch but the last, gaps included
        self._draining = self._behind = False
        self.expires_at = inf
        """When to call `expire`: nobody's time is up before."""
        self._read_curve()

    @property
    def depth(self) -> int:
        """Rows that wait."""
        return self._interactive + self._background.rows

    @property
    def leaves_at(self) -> float:
        """When a batch that waits for company leaves at the latest; 0.0 if none does."""
        return self._batches[0].leave_at if self._batches else 0.0

    def rows_max(self, priority: int) -> int:
        """Rows that a job may have; a background one must not keep interactive ones waiting."""
        return self.rules.size_max if priority == _INTERACTIVE else self._slice

    def add(self, job: J, now: float) -> float:
        """Admit, and return when the answer is due; raises at once.

        `QueueFull`: there is no room, or no time because of others. `DeadlineMissed`: no idle model
        could answer in time. `TooLarge`: more than `rows_max`. `Malformed`: no rows.
        """
        job.added = now
        if job.priority == _INTERACTIVE and self._batches:  # the common case, in few steps
            rows = len(job.rows)
            last = self._batches[-1]
            size = last.rows + rows
            if rows > 0 and size <= self._full_at and self._interactive + rows <= self._depth_max:
                free_at = self._free_at
                done = (free_at if free_at > now else now) + self._ahead_s + self._cost[size]
                deadline = job.deadline
                limit = now + self._target_s[rows]
                if deadline < limit:
                    limit = deadline
                if done <= limit and done <= last.limit and not last.leave_at:
                    last.jobs.append(job)
                    last.rows = size
                    if limit < last.limit:
                        last.limit = limit
                    self._interactive += rows
                    latest = deadline - self._cost[rows]
                    if latest < self.expires_at:
                        self.expires_at = latest
                    return done
        return self._add(job, now)

    def take(self, now: float) -> Batch[J] | None:
        """What leaves now that nothing runs, or None; call `ran` when it has run.

        Its `jobs` may be empty, if all it holds is `missed`. None while something waits: it waits
        for company until `leaves_at`.
        """
        self._note(now)
        missed = self.expire(now) if now > self.expires_at else []
        batch: Batch[J] | None = None
        if self._batches:
            if why := self._why(self._batches[0], now):
                batch = self._next(now)
                batch.why = why
        elif self._background.rows:
            batch = Batch([], 0, inf)
        if batch is None:
            return None if not missed else _only(missed)
        if missed:
            batch.missed += missed
        if self._background.rows and not self._batches:
            self._fill(batch, now)
        self._counted = self._interactive
        self._free_at = now + self._cost[batch.rows] + self._gap_s if batch.jobs else now
        return batch

    def ran(self, now: float) -> None:
        """The batch that was taken has ended; the curve may have learnt from it."""
        self._free_at = self._ran_at = now
        self._behind = self.depth > 0
        if self._curve.revision != self._revision:
            self._read_curve()

    def expire(self, now: float) -> list[J]:
        """Take out whoever waited too long, or could not be answered in time by an idle model."""
        expired, first = self._background.expire(now, self._expiry)
        kept: deque[Batch[J]] = deque()
        for batch in self._batches:
            late = [job for job in batch.jobs if self._expiry(job) < now]
            if late:
                batch.jobs = [job for job in batch.jobs if self._expiry(job) >= now]
                self._remove(batch, late)
                expired += late
            if batch.jobs:
                kept.append(batch)
                first = min(first, *map(self._expiry, batch.jobs))
        self._batches = kept
        self.expires_at = max(first, now + _EXPIRY_STEP_S)
        self._add_up()
        return expired

    def drain(self) -> None:
        """Nobody comes any more, so nothing waits for company."""
        self._draining = True

    def _add(self, job: J, now: float) -> float:
        rows, priority = len(job.rows), job.priority
        if rows < 1:
            raise Malformed("a job without rows; send at least one")
        if rows > self.rows_max(priority):
            raise TooLarge(
                f"{rows} rows in one job; {self.rows_max(priority)} are the most at priority "
                f"{priority}: split it"
            )
        waiting = (
            self._interactive if priority == _INTERACTIVE else self._background.waiting(priority)
        )
        if waiting + rows > self._depth_max:
            raise QueueFull(f"{waiting} rows already wait; send it again", self._clear_s(now))
        done = (
            self._add_interactive(job, rows, now) if priority == _INTERACTIVE
            else self._add_background(job, rows, now)
        )  # fmt: skip
        self.expires_at = min(self.expires_at, self._expiry(job))
        return done

    def _add_interactive(self, job: J, rows: int, now: float) -> float:
        limit = min(job.deadline, now + self._target_s[rows])
        starts = max(now, self._free_at) + self._ahead_s
        if self._batches and (size := self._batches[-1].rows + rows) <= self.rules.size_max:
            last = self._batches[-1]
            leave_at = last.leave_at
            if leave_at:  # waiting takes half of what a job has to spare, and no more
                spare_s = limit - now - self._cost[size]
                leave_at = min(leave_at, now + max(0.0, spare_s / 2))
            done = max(starts, leave_at) + self._cost[size]
            if size <= self._full_at and done <= min(limit, last.limit):
                last.jobs.append(job)
                last.rows, last.limit, last.leave_at = size, min(limit, last.limit), leave_at
                self._interactive += rows
                return done
        room = rows
        if self._batches:  # behind a backlog, only where company would be in time too
            last = self._batches[-1]
            starts += self._cost[last.rows] + self._gap_s
            room = max(rows, self._efficient)
        if starts + self._cost[room] > limit or starts > now + self.rules.queue_s_max[0]:
            raise self._too_late(now, rows, limit, starts - now)
        if self._batches:
            last.why = "due" if last.rows + rows <= self._full_at else self._full(last.rows)
            self._ahead_s = starts - max(now, self._free_at)
        self._batches.append(Batch([job], rows, limit))
        self._interactive += rows
        return starts + self._cost[rows]

    def _add_background(self, job: J, rows: int, now: float) -> float:
        """Its promise holds while no more interactive jobs come than now wait."""
        slices, rest = divmod(self._background.ahead(job.priority), self._slice)
        starts = (
            max(now, self._free_at) + self._line_s()
            + slices * (self._cost[self._slice] + self._gap_s)
            + (self._cost[rest] + self._gap_s if rest else 0.0)
        )  # fmt: skip
        done = starts + self._cost[rows]
        if done > job.deadline or starts > now + self.rules.queue_s_max[job.priority - 1]:
            raise self._too_late(now, rows, job.deadline, starts - now)
        self._background.add(job, rows)
        return done

    def _why(self, head: Batch[J], now: float) -> str:
        """Why it leaves now; empty: it waits for company."""
        if head.why:
            return head.why
        if head.rows >= self._full_at:
            return self._full(head.rows)
        if self._draining:
            return "drained"
        if not self.rules.wait_s_max or self._background.rows:
            return "idle"
        if head.leave_at:
            if head.rows >= head.target:
                return "preferred"
            return "due" if now >= head.leave_at - _ROUNDING_S else ""
        spare_s = max(0.0, head.limit - now - self._cost[self._full_at]) / 2
        head.target, wait_s = company(
            head.rows, self._targets, self._arrivals.per_s(now), self._cost,
            min(self.rules.wait_s_max, self.rules.queue_s_max[0], spare_s),
        )  # fmt: skip
        if not wait_s:
            return "idle"
        head.leave_at = now + wait_s
        return ""

    def _full(self, rows: int) -> str:
        return "preferred" if rows in self.rules.preferred else "full"

    def _next(self, now: float) -> Batch[J]:
        batch = self._batches.popleft()
        self._interactive -= batch.rows
        if now + self._cost[batch.rows] > batch.limit + _ROUNDING_S:
            self._give_up_late(batch, now)
        if self._batches:
            self._add_up()
        else:
            self._ahead_s = 0.0
        return batch

    def _give_up_late(self, batch: Batch[J], now: float) -> None:
        """Until the rest can be in time, whose deadlines are later."""
        by_deadline = deque(sorted(batch.jobs, key=lambda job: job.deadline))
        while by_deadline and now + self._cost[batch.rows] > by_deadline[0].deadline + _ROUNDING_S:
            late = by_deadline.popleft()
            batch.missed.append(late)
            batch.rows -= len(late.rows)
        if batch.missed:
            batch.jobs = [job for job in batch.jobs if job not in batch.missed]

    def _fill(self, batch: Batch[J], now: float) -> None:
        """With background jobs, or make it of them."""
        if batch.jobs:
            costs_s = min(self._cost[batch.rows] + self._delay_s, batch.limit - now)
            rows_max = bisect_right(self._cost, costs_s) - 1
        else:
            rows_max = max(self._slice, self._background.first_rows)
            batch.why = "idle"
        batch.rows = self._background.fill(
            batch.jobs, batch.rows, rows_max, now, batch.limit, self._cost
        )
        if batch.rows >= self._full_at:
            batch.why = "full"

    def _remove(self, batch: Batch[J], late: list[J]) -> None:
        rows = sum(len(job.rows) for job in late)
        batch.rows -= rows
        self._interactive -= rows
        self._counted = min(self._counted, self._interactive)

    def _expiry(self, job: J) -> float:
        queued_until = job.added + self.rules.queue_s_max[job.priority - 1]
        return min(job.deadline - self._cost[len(job.rows)], queued_until) + _ROUNDING_S

    def _too_late(
        self, now: float, rows: int, limit: float, wait_s: float
    ) -> QueueFull | DeadlineMissed:
        left_s, alone_s = limit - now, self._cost[rows]
        if alone_s > left_s:
            return DeadlineMissed(
                f"{left_s * 1e3:.1f} ms are left; the model needs {alone_s * 1e3:.1f}"
            )
        return QueueFull(f"the wait would be {wait_s * 1e3:.1f} ms; send it again", wait_s)

    def _clear_s(self, now: float) -> float:
        return max(0.0, self._free_at - now) + self._line_s()

    def _line_s(self) -> float:
        """Seconds of all interactive batches that wait."""
        if not self._batches:
            return 0.0
        return self._ahead_s + self._cost[self._batches[-1].rows] + self._gap_s

    def _note(self, now: float) -> None:
        """Learn the gap, and what has arrived since the last batch was taken."""
        gap_s = min(now - self._ran_at, _GAP_S_MAX) if self._behind else 0.0
        self._gap_s += _GAP_WEIGHT * (gap_s - self._gap_s)
        self._behind = False
        if self.rules.wait_s_max:
            self._arrivals.saw(self._interactive - self._counted, now)
            self._counted = self._interactive

    def _add_up(self) -> None:
        cost, gap_s = self._cost, self._gap_s
        self._ahead_s = sum(cost[batch.rows] + gap_s for batch in self._batches)
        if self._batches:
            self._ahead_s -= cost[self._batches[-1].rows] + gap_s

    def _read_curve(self) -> None:
        rules = self.rules
        self._revision = self._curve.revision
        self._cost = [0.0, *(self._curve.cost_s(rows + 1) for rows in range(rules.size_max))]
        # a target below what the model can do would refuse everything: room for one that runs
        # and one's own
        p99_s = inf if rules.p99_s is None else rules.p99_s
        self._target_s = [max(p99_s, 2 * cost_s) for cost_s in self._cost]
        whole_s = self._cost[-1] if rules.p99_s is None else rules.p99_s
        self._delay_s = rules.bulk_share * whole_s / 2
        self._slice = max(1, bisect_right(self._cost, self._delay_s) - 1)
        self._add_up()


def _only(missed: list[J]) -> Batch[J]:
    batch: Batch[J] = Batch([], 0, inf)
    batch.missed = missed
    return batch
