"""A batch: jobs that run together."""

from collections import deque
from collections.abc import Sequence, Sized
from typing import Generic, Protocol, TypeVar


class Waiting(Protocol):
    """What a queue must know of a job (`cloud.serving.job.Job` is one)."""

    added: float

    @property
    def rows(self) -> Sized: ...
    @property
    def deadline(self) -> float: ...
    @property
    def priority(self) -> int: ...


ROUNDING_S = 1e-9  # the same sum, added up in another order

J = TypeVar("J", bound=Waiting)


class Batch(Generic[J]):
    """Jobs in the order in which they came, interactive ones first.

    `missed` are those that were to be in it and are late: the machine was slower than promised.
    `why` it left: full, preferred (a preferred size), idle (nothing ran), due (a wait was over, or
    company would have made somebody late), drained.
    """

    __slots__ = ("ends_at", "jobs", "leave_at", "limit", "missed", "rows", "target", "why")

    def __init__(self, jobs: list[J], rows: int, limit: float) -> None:
        self.jobs, self.rows = jobs, rows
        self.limit = limit  # the earliest time at which a member is to be answered
        self.missed: list[J] = []
        self.leave_at = 0.0  # while it waits for company, at the latest
        self.target = 0  # and the rows it waits for
        self.why = ""  # set when it is closed
        self.ends_at = 0.0  # set when it leaves, as the curve says

    def drop(self, jobs: Sequence[J]) -> int:
        """Take these out; returns their rows."""
        out = {id(job) for job in jobs}
        rows = sum(len(job.rows) for job in jobs)
        self.jobs = [job for job in self.jobs if id(job) not in out]
        self.rows -= rows
        return rows

    def give_up_late(self, now: float, cost_s: Sequence[float]) -> None:
        """Move to `missed` who would be late if it left now, the most urgent first, until the rest
        is in time. `cost_s[n]`: seconds for n rows.
        """
        by_deadline = deque(sorted(self.jobs, key=lambda job: job.deadline))
        while by_deadline and now + cost_s[self.rows] > by_deadline[0].deadline + ROUNDING_S:
            late = by_deadline.popleft()
            self.missed.append(late)
            self.drop([late])
