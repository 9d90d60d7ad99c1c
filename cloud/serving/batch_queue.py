"""Which requests share a batch, when it leaves, and which cannot be answered in time. Pure.

A request joins a batch when it is added, so its answer's time is known at that moment: what runs
now, then the batches ahead of it, then its own. It is admitted only if that is within its deadline
and pushes no batch mate past theirs; a batch that would grow too slow for its most urgent member
is closed and the next one opened. So a promise once made holds as long as the curve does, and
overload is a prompt refusal (compare Clockwork, OSDI 2020, and Nexus, SOSP 2019).
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from cloud.serving.latency_curve import LatencyCurve
from shared.errors import DeadlineMissed, Overloaded

T = TypeVar("T")
_ROUNDING_S = 1e-9  # the same sum, added up in another order


class QueueFull(Overloaded):
    """Too many wait, or the wait is longer than the request can bear; `clear_s` says how long."""

    def __init__(self, message: str, clear_s: float) -> None:
        super().__init__(message)
        self.clear_s = clear_s


@dataclass(slots=True)
class _Forming(Generic[T]):
    opened_at: float
    leave_at: float  # at the latest, once nothing runs
    deadline: float  # of its most urgent member
    items: list[tuple[float, T]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Batch(Generic[T]):
    items: list[T]
    missed: list[T]  # taken out as well: the machine was slower than promised


class BatchQueue(Generic[T]):
    """Times are seconds of one monotonic clock."""

    def __init__(
        self, curve: LatencyCurve, *, size_max: int, wait_s_max: float, depth_max: int
    ) -> None:
        if not 0 < size_max <= depth_max:
            raise ValueError(f"size_max {size_max} must lie in 1..depth_max {depth_max}")
        self._curve = curve
        self._size_max, self._wait_s_max, self._depth_max = size_max, wait_s_max, depth_max
        self._batches: deque[_Forming[T]] = deque()
        self._depth = 0
        self._busy_until = 0.0
        self._ahead_s = 0.0  # cost of every batch but the last

    def __len__(self) -> int:
        return self._depth

    def add(self, item: T, *, now: float, deadline: float) -> float:
        """Admit and return when the answer is due; raises `QueueFull` or `DeadlineMissed`."""
        if self._depth == self._depth_max:
            raise QueueFull(f"{self._depth} requests already wait", self._clear_s(now))
        done = self._join_last(item, now, deadline) or self._open_next(item, now, deadline)
        self._depth += 1
        return done

    def due_at(self) -> float | None:
        """When the next batch may leave, once nothing runs; None while nothing waits."""
        if not self._batches:
            return None
        head = self._batches[0]
        if len(self._batches) > 1 or len(head.items) >= self._size_max:
            return head.opened_at
        return head.leave_at

    def take(self, now: float) -> Batch[T]:
        """The next batch, empty when none is due; call `ran` when it has run."""
        due = self.due_at()
        if due is None or now < due:
            return Batch([], [])
        head = self._batches.popleft()
        self._depth -= len(head.items)
        closed = list(self._batches)[:-1]
        self._ahead_s = sum(self._curve.cost_s(len(batch.items)) for batch in closed)
        done = now + self._curve.cost_s(len(head.items))
        items = [item for deadline, item in head.items if done <= deadline + _ROUNDING_S]
        missed = [item for deadline, item in head.items if done > deadline + _ROUNDING_S]
        if items:
            self._busy_until = now + self._curve.cost_s(len(items))
        return Batch(items, missed)

    def ran(self, now: float) -> None:
        self._busy_until = now

    def _join_last(self, item: T, now: float, deadline: float) -> float | None:
        if not self._batches or len(self._batches[-1].items) == self._size_max:
            return None
        last = self._batches[-1]
        leave_at = min(last.leave_at, self._leave_at(now, deadline, len(last.items) + 1))
        starts = max(self._free_at(now) + self._ahead_s, leave_at)
        done = starts + self._curve.cost_s(len(last.items) + 1)
        if done > min(last.deadline, deadline):
            return None
        last.items.append((deadline, item))
        last.deadline, last.leave_at = min(last.deadline, deadline), leave_at
        return done

    def _open_next(self, item: T, now: float, deadline: float) -> float:
        last_s = self._curve.cost_s(len(self._batches[-1].items)) if self._batches else 0.0
        leave_at = self._leave_at(now, deadline, 1)
        starts = max(self._free_at(now) + self._ahead_s + last_s, leave_at)
        done = starts + self._curve.cost_s(1)
        if done > deadline:
            raise self._too_late(now, deadline)
        self._ahead_s += last_s
        self._batches.append(_Forming(now, leave_at, deadline, [(deadline, item)]))
        return done

    def _leave_at(self, now: float, deadline: float, size: int) -> float:
        """Waiting for company takes half of what a request has to spare, and no more."""
        spare_s = max(0.0, deadline - now - self._curve.cost_s(size))
        return now + min(self._wait_s_max, spare_s / 2)

    def _free_at(self, now: float) -> float:
        return max(now, self._busy_until)

    def _clear_s(self, now: float) -> float:
        last_s = self._curve.cost_s(len(self._batches[-1].items)) if self._batches else 0.0
        return self._free_at(now) - now + self._ahead_s + last_s

    def _too_late(self, now: float, deadline: float) -> QueueFull | DeadlineMissed:
        alone_s = self._curve.cost_s(1)
        left_ms = (deadline - now) * 1e3
        if now + alone_s > deadline:
            return DeadlineMissed(f"{left_ms:.1f} ms are left; the model needs {alone_s * 1e3:.1f}")
        clear_s = self._clear_s(now)
        return QueueFull(f"the wait is {clear_s * 1e3:.0f} ms; {left_ms:.0f} are left", clear_s)
