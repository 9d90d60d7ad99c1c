"""Which jobs share a batch, when it leaves, and which cannot be answered in time. Pure.

An interactive job joins a batch when it is added, so its answer's time is known at that moment:
what runs now, then the batches ahead of it, then its own. It is admitted only if that is within its
deadline and the target p99, and makes no batch mate late; so a promise once made holds as long as
the curve does, and overload is a prompt refusal (compare Clockwork, OSDI 2020, and Nexus, SOSP
2019). Behind a backlog a batch is opened only where a full one would be in time as well: else each
would be closed by its first member's limit, and overload would be served one by one.

Near-line and bulk jobs take what is left over (`background.py`). All of them together delay an
interactive job by no more than `bulk_share` of the target (without one, a full batch): half of it
by the batch of theirs that runs when it comes, half by those that fill up its own batch. Where one
row alone takes longer than that half, by one row.
"""

# ruff: noqa: FURB136, PLR1730  (in the common case a call of `min` would be a tenth of the cost)

from collections import deque
from math import inf
from typing import Generic

from cloud.serving.arrivals import ArrivalRate
from cloud.serving.background import Background
from cloud.serving.batch import ROUNDING_S, Batch, J
from cloud.serving.batch_rules import BatchRules
from cloud.serving.company import company
from cloud.serving.latency_curve import LatencyCurve
from cloud.serving.pace import Pace
from cloud.serving.refusal import QueueFull, too_late
from shared.errors import Malformed, TooLarge

_INTERACTIVE = 1
_EXPIRY_STEP_S = 0.001  # those who wait are looked through no more often than this


class BatchQueue(Generic[J]):
    """Times are seconds of one monotonic clock."""

    def __init__(self, curve: LatencyCurve, rules: BatchRules, lanes: int = 1) -> None:
        """`lanes`: batches that may run at once."""
        self._rules = rules
        self._pace = Pace(curve, rules, lanes)
        self._targets = rules.preferred or (self._pace.efficient, rules.size_max)
        self._depth_max = rules.depth_max
        self._batches: deque[Batch[J]] = deque()
        self._interactive = 0  # rows in them
        self._ahead_s = 0.0  # all batches but the last
        self._background = Background[J]()
        self._arrivals = ArrivalRate()
        self._draining = False
        self.expires_at = inf
        """Before it nobody's time is up; then call `expire`."""

    @property
    def depth(self) -> int:
        """Rows that wait."""
        return self._interactive + self._background.rows

    @property
    def interactive(self) -> int:
        """Rows of interactive jobs that wait."""
        return self._interactive

    @property
    def leaves_at(self) -> float:
        """When the batch that waits for company leaves at the latest."""
        return self._batches[0].leave_at if self._batches else inf

    def rows_max(self, priority: int) -> int:
        """Rows that a job may have; a background one must not keep interactive ones waiting."""
        return self._rules.size_max if priority == _INTERACTIVE else self._pace.slice

    def add(self, job: J, now: float) -> float:
        """Admit, and return when the answer is due; raises at once.

        `QueueFull`: there is no room, or no time because of others. `DeadlineMissed`: no idle model
        could answer in time. `TooLarge`: more than `rows_max`. `Malformed`: no rows.
        """
        job.added = now
        if self._batches and job.priority == _INTERACTIVE:
            # the common case of `_add_interactive`, in few steps
            rows, last, pace = len(job.rows), self._batches[-1], self._pace
            size = last.rows + rows
            if rows and size <= pace.full_at and self._interactive + rows <= self._depth_max:
                free_at = pace.free_at
                done = (free_at if free_at > now else now) + self._ahead_s + pace.cost_s[size]
                deadline = job.deadline
                limit = now + pace.target_s[rows]
                if deadline < limit:
                    limit = deadline
                if done <= limit and done <= last.limit and not last.leave_at:
                    last.jobs.append(job)
                    last.rows = size
                    if limit < last.limit:
                        last.limit = limit
                    self._interactive += rows
                    latest = deadline - pace.cost_s[rows]
                    if latest < self.expires_at:
                        self.expires_at = latest
                    return done
        return self._add(job, now)

    def take(self, now: float) -> Batch[J] | None:
        """What leaves now that nothing runs; call `ran` when it has run.

        Its `jobs` may be empty, if all it holds is `missed`. None while something waits means that
        it waits for company, until `leaves_at`.
        """
        self._pace.learn_gap(now)
        missed = self.expire(now) if now > self.expires_at else []
        batch = self._leaving(now)
        if batch is None and missed:
            batch = Batch([], 0, inf)
        if batch is not None:
            batch.missed += missed
            if self._background.rows and not self._batches:
                self._fill(batch, now)
            if batch.jobs:
                batch.ends_at = self._pace.started(batch.rows, now)
        return batch

    def again(self, jobs: list[J], now: float) -> Batch[J]:
        """Some of a batch that has failed, who were not to blame, or by themselves; then `ran`."""
        rows = sum(len(job.rows) for job in jobs)
        batch = Batch(jobs, rows, min(job.deadline for job in jobs))
        batch.why = "again"
        batch.give_up_late(now, self._pace.cost_s)
        if batch.jobs:
            batch.ends_at = self._pace.started(batch.rows, now)
        return batch

    def ran(self, batch: Batch[J], now: float) -> None:
        """A batch that was taken has ended; the curve may have learnt from it."""
        if batch.ends_at:
            behind = self._interactive > 0 or self._background.rows > 0
            self._pace.ended(batch.ends_at, now, behind=behind)
            if self._pace.read_curve():
                self._add_up()

    def expire(self, now: float) -> list[J]:
        """Take out whoever waited too long, or could not be answered in time by an idle model."""
        expired, first = self._background.expire(now, self._expiry)
        kept: deque[Batch[J]] = deque()
        for batch in self._batches:
            late = [job for job in batch.jobs if self._expiry(job) < now]
            if late:
                self._interactive -= batch.drop(late)
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
                f"{priority:d}: split it"
            )
        if priority == _INTERACTIVE:
            waiting, add = self._interactive, self._add_interactive
        else:
            waiting, add = self._background.waiting(priority), self._add_background
        if waiting + rows > self._depth_max:
            clear_s = max(0.0, self._pace.free_at - now) + self._line_s()
            raise QueueFull(f"{waiting} rows already wait; send it again", clear_s)
        done = add(job, rows, now)
        self.expires_at = min(self.expires_at, self._expiry(job))
        return done

    def _add_interactive(self, job: J, rows: int, now: float) -> float:
        pace = self._pace
        limit = min(job.deadline, now + pace.target_s[rows])
        starts = max(now, pace.free_at) + self._ahead_s
        room = rows
        if self._batches:
            last = self._batches[-1]
            size = last.rows + rows
            if size <= pace.full_at:
                leave_at = last.leave_at
                if leave_at:  # waiting takes half of what a job has to spare, and no more
                    spare_s = limit - now - pace.cost_s[size]
                    leave_at = min(leave_at, now + max(0.0, spare_s / 2))
                done = max(starts, leave_at) + pace.cost_s[size]
                if done <= min(limit, last.limit):
                    last.jobs.append(job)
                    last.rows, last.limit, last.leave_at = size, min(limit, last.limit), leave_at
                    self._interactive += rows
                    return done
            starts += pace.batch_s(last.rows)
            room = max(rows, pace.room(limit - now))
        if starts + pace.cost_s[room] > limit or starts > now + self._rules.queue_s_max[0]:
            raise too_late(pace.cost_s[rows], limit - now, starts - now)
        if self._batches:
            last.why = "due" if size <= pace.full_at else self._full(last.rows)
            self._ahead_s += pace.batch_s(last.rows)
        self._batches.append(Batch([job], rows, limit))
        self._interactive += rows
        return starts + pace.cost_s[rows]

    def _add_background(self, job: J, rows: int, now: float) -> float:
        """Its promise holds while no more interactive jobs come than now wait."""
        pace = self._pace
        slices, rest = divmod(self._background.ahead(job.priority), pace.slice)
        starts = max(now, pace.free_at) + self._line_s() + slices * pace.batch_s(pace.slice)
        if rest:
            starts += pace.batch_s(rest)
        done = starts + pace.cost_s[rows]
        if done > job.deadline or starts > now + self._rules.queue_s_max[job.priority - 1]:
            raise too_late(pace.cost_s[rows], job.deadline - now, starts - now)
        self._background.add(job, rows)
        return done

    def _leaving(self, now: float) -> Batch[J] | None:
        if not self._batches:
            return Batch([], 0, inf) if self._background.rows else None
        head = self._batches[0]
        head.why = self._why(head, now)
        if not head.why:
            return None
        self._batches.popleft()
        self._interactive -= head.rows
        if self._batches:
            self._add_up()
        else:
            self._ahead_s = 0.0
        if self._rules.wait_s_max:
            self._arrivals.saw(head.rows, now)
        if now + self._pace.cost_s[head.rows] > head.limit:
            head.give_up_late(now, self._pace.cost_s)
        return head

    def _why(self, head: Batch[J], now: float) -> str:
        """Why it leaves now; empty: it waits for company."""
        if head.why:
            return head.why
        if head.rows >= self._pace.full_at:
            return self._full(head.rows)
        if self._draining:
            return "drained"
        if not self._rules.wait_s_max or self._background.rows:
            return "idle"
        if not head.leave_at:
            self._look_for_company(head, now)
            return "" if head.leave_at else "idle"
        if head.rows >= head.target:
            return "preferred"
        return "due" if now >= head.leave_at - ROUNDING_S else ""

    def _look_for_company(self, head: Batch[J], now: float) -> None:
        spare_s = max(0.0, head.limit - now - self._pace.cost_s[-1]) / 2
        head.target, wait_s = company(
            head.rows, self._targets, self._arrivals.per_s(now), self._pace.cost_s,
            min(self._rules.wait_s_max, self._rules.queue_s_max[0], spare_s),
        )  # fmt: skip
        if wait_s:
            head.leave_at = now + wait_s

    def _full(self, rows: int) -> str:
        return "preferred" if rows in self._rules.preferred else "full"

    def _fill(self, batch: Batch[J], now: float) -> None:
        """With background jobs, or make it of them."""
        pace = self._pace
        if batch.jobs:
            rows_max = pace.filled(batch.rows)
        else:
            batch.limit, batch.why = inf, "idle"
            rows_max = max(pace.slice, self._background.first_rows)
        batch.rows = self._background.fill(
            batch.jobs, batch.rows, rows_max, now, batch.limit, pace.cost_s
        )
        if batch.rows >= pace.full_at:
            batch.why = "full"

    def _expiry(self, job: J) -> float:
        queued_until = job.added + self._rules.queue_s_max[job.priority - 1]
        latest = job.deadline - self._pace.cost_s[len(job.rows)]
        return min(latest, queued_until) + ROUNDING_S

    def _line_s(self) -> float:
        """All interactive batches that wait."""
        if not self._batches:
            return 0.0
        return self._ahead_s + self._pace.batch_s(self._batches[-1].rows)

    def _add_up(self) -> None:
        closed = list(self._batches)[:-1]
        self._ahead_s = sum(self._pace.batch_s(batch.rows) for batch in closed)
