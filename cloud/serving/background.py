"""Near-line and bulk jobs: two lines that wait for what interactive ones leave over. Pure."""

from collections import deque
from collections.abc import Callable, Sequence
from math import inf
from typing import Generic

from cloud.serving.batch import J

NEAR_LINE = 2


class Background(Generic[J]):
    """First in, first out within each line; near-line goes first."""

    def __init__(self) -> None:
        self._lines: tuple[deque[J], deque[J]] = (deque(), deque())
        self._rows = [0, 0]
        self.rows = 0

    def add(self, job: J, rows: int) -> None:
        line = job.priority - NEAR_LINE
        self._lines[line].append(job)
        self._rows[line] += rows
        self.rows += rows

    def waiting(self, priority: int) -> int:
        """Rows in one line."""
        return self._rows[priority - NEAR_LINE]

    def ahead(self, priority: int) -> int:
        """Rows that go before a job that joins now."""
        return self.rows if priority > NEAR_LINE else self._rows[0]

    @property
    def first_rows(self) -> int:
        """Rows of the job that goes next; 0 if there is none."""
        return next((len(line[0].rows) for line in self._lines if line), 0)

    def fill(
        self, jobs: list[J], rows: int, rows_max: int,
        now: float, limit: float, cost_s: Sequence[float],
    ) -> int:  # fmt: skip
        """Move what fits into `jobs`, which hold `rows` and must be done by `limit`.

        Returns the rows in `jobs` then. Whoever does not fit keeps its line waiting, not the other.
        """
        for index, line in enumerate(self._lines):
            while line:
                job = line[0]
                size = rows + len(job.rows)
                if size > rows_max or now + cost_s[size] > min(limit, job.deadline):
                    break
                limit = min(limit, job.deadline)
                jobs.append(line.popleft())
                self._rows[index] -= size - rows
                self.rows -= size - rows
                rows = size
        return rows

    def expire(self, now: float, expiry: Callable[[J], float]) -> tuple[list[J], float]:
        """Take out whoever's time is up; also when the next one's is, inf if nobody waits."""
        expired: list[J] = []
        first = inf
        for index, line in enumerate(self._lines):
            for _ in range(len(line)):
                job = line.popleft()
                at = expiry(job)
                if at < now:
                    expired.append(job)
                    self._rows[index] -= len(job.rows)
                    self.rows -= len(job.rows)
                else:
                    first = min(first, at)
                    line.append(job)
        return expired, first
