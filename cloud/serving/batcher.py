"""Run a model over batches: the asyncio shell around `BatchQueue`.

Fires when idle: the first job of a round arms `call_soon`, so that what one poll brought in is one
batch and nothing waits for a timer. While a batch runs, the next one collects. There is no task and
no future per job: it is told by a call.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import inf

from cloud.serving.awaited import Awaited
from cloud.serving.batch import Batch
from cloud.serving.batch_queue import BatchQueue
from cloud.serving.batch_rules import BatchRules
from cloud.serving.failed_batch import Failed, sort_out
from cloud.serving.job import Job, Outputs, Priority, Ran, Rows
from cloud.serving.latency_curve import LatencyCurve
from cloud.serving.telling import Predicted, Telling
from shared.errors import Unavailable

INLINE_S_MAX = 0.001
"""A batch whose work takes longer than this leaves the event loop for the worker thread."""


class Draining(Unavailable):
    """This worker shuts down; another one, or this one later, can answer."""

    retry_after_s = 1.0  # until whoever balances the load has noticed


class Batcher:
    """One model's queue, on one event loop.

    `predict` gives the outputs of all rows of a batch's jobs, in their order. It is called on the
    loop or in a thread, by one at a time; with `lanes`, by as many threads at once.
    """

    def __init__(
        self,
        predict: Callable[[Sequence[Rows]], Outputs],
        curve: LatencyCurve,
        *,
        rules: BatchRules,
        on_batch: Callable[[int, float], None] = lambda _rows, _run_s: None,
        lanes: int = 1,
        inline_s_max: float = INLINE_S_MAX,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`on_batch(rows, run_s)` is called after each batch.

        `inline_s_max`: a batch of more work than that runs in a thread; below 0, all do,
        as must be where another machine computes. `lanes` above 1 needs that.
        `now` is a clock of its own because uvloop's stands still within a round, to the ms.
        """
        self._predict, self._curve = predict, curve
        self._on_batch, self._now = on_batch, now
        self._lanes = self._lanes_free = lanes
        self._inline_s_max = inline_s_max if lanes == 1 else -1.0
        self._queue = BatchQueue[Job](curve, rules, lanes)
        self._p99_s = rules.p99_s
        self._again: deque[list[Job]] = deque()  # of batches that failed
        self._armed = False  # a `_flush` is to come: in this round, or when a thread is done
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = inf
        self._threads: ThreadPoolExecutor | None = None
        self._draining = False
        self._finished = asyncio.Event()
        self._left = dict.fromkeys(("full", "preferred", "idle", "due", "drained", "again"), 0)
        self._left_by_priority = dict.fromkeys(Priority, 0)
        self._telling = Telling()
        self.busy_s = 0.0
        """Seconds in which the model has run."""

    @property
    def depth(self) -> int:
        """Rows that wait."""
        return self._queue.depth + sum(map(len, self._again))

    @property
    def interactive_depth(self) -> int:
        """Rows of interactive jobs that wait."""
        return self._queue.interactive

    @property
    def busy(self) -> bool:
        """Work waits or runs."""
        return self._armed or self._lanes_free < self._lanes or self.depth > 0

    @property
    def left(self) -> Mapping[str, int]:
        """Batches by why they left (see `Batch`), and `again`: of jobs whose batch failed."""
        return self._left

    @property
    def left_by_priority(self) -> Mapping[Priority, int]:
        """Batches by the priority of their most urgent job."""
        return self._left_by_priority

    @property
    def missed(self) -> int:
        """Jobs that were accepted and not answered in time."""
        return self._telling.missed

    @property
    def failed_callbacks(self) -> int:
        """Calls that raised: of jobs, or `on_batch`."""
        return self._telling.raised

    def rows_max(self, priority: Priority) -> int:
        """Rows that one job may have; whoever has more splits them."""
        return self._queue.rows_max(priority)

    def alone_s(self, rows: int, priority: Priority) -> float:
        """Seconds that so many rows take, in as many jobs as that needs, when nobody else is there."""
        whole, rest = divmod(rows, self.rows_max(priority))
        cost_s = self._curve.cost_s
        return whole * cost_s(self.rows_max(priority)) + (cost_s(rest) if rest else 0.0)

    def patience_s(self, priority: Priority) -> float:
        """The longest that a job may take in here, whatever its deadline."""
        p99_s = self._p99_s
        return inf if p99_s is None or priority is not Priority.INTERACTIVE else p99_s

    def submit(self, job: Job) -> None:
        """Admit; `job.answered` or `job.failed` is called later, once, on the event loop.

        Raises `QueueFull`, `DeadlineMissed`, `Draining`, `TooLarge` or `Malformed` at once.
        """
        if self._draining:
            raise Draining("this worker is shutting down; send it again")
        self._queue.add(job, self._now())
        if not self._armed:
            self._arm()
        elif self._lanes_free == 0 and self._queue.expires_at < self._timer_at:
            self._wake_at(self._queue.expires_at)

    async def infer(
        self, rows: Rows, deadline: float, priority: Priority = Priority.INTERACTIVE
    ) -> Ran:
        """Outputs of `rows` [n, *input shape] by `deadline`, by this batcher's clock.

        Raises what `submit` raises, or what the model did. Cancelled, it costs nothing if its batch
        has not left.
        """
        job = Awaited(rows, deadline, priority)
        self.submit(job)
        return await job.done

    async def drain(self) -> None:
        """Take no more work; returns once everything accepted is answered."""
        self._draining = True
        self._queue.drain()
        if not self._armed:
            self._arm()
        await self._finished.wait()

    def _arm(self) -> None:
        self._armed = True
        asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        """One batch on this loop, or one for each lane that is free."""
        if self._lanes_free == 0:
            return  # another one came first
        self._armed = False
        while batch := self._next():
            if not self._is_long(batch):
                self._run_here(batch)
                return
            self._run_in_thread(batch)
            if self._lanes_free == 0:
                return
        if self._queue.depth:
            self._wake_at(self._queue.leaves_at)
        elif self._draining and self._lanes_free == self._lanes:
            self._close()

    def _next(self) -> Batch[Job] | None:
        """What leaves now, without those who have hung up; None: nothing does."""
        while self._again or self._queue.depth:
            now = self._now()
            if self._again:
                batch = self._queue.again(self._again.popleft(), now)
            elif (taken := self._queue.take(now)) is not None:
                batch = taken
            else:
                return None
            if batch.missed:
                self._telling.late(batch.missed)
            for job in batch.jobs:
                if job.gone:
                    self._drop_gone(batch)
                    break
            if batch.jobs:
                self._left[batch.why] += 1
                # interactive ones come first, and those who fill up after them, near-line first
                self._left_by_priority[batch.jobs[0].priority] += 1
                return batch
            self._queue.ran(batch, now)
        return None

    def _drop_gone(self, batch: Batch[Job]) -> None:
        batch.jobs = [job for job in batch.jobs if not job.gone]
        batch.rows = sum(len(job.rows) for job in batch.jobs)

    def _is_long(self, batch: Batch[Job]) -> bool:
        """By its work alone: if a thread that waits for the interpreter's lock counted as slow,
        batches that were once in a thread would never come back to the loop.
        """
        return self._curve.quick_s(batch.rows) > self._inline_s_max

    def _run_here(self, batch: Batch[Job]) -> None:
        ran = self._predicted(batch)
        self._account(batch, ran)
        self._telling.ended(batch, ran)
        if not self._armed and (self._again or self._queue.depth or self._draining):
            self._arm()  # after a round for the loop, to read and to send

    def _run_in_thread(self, batch: Batch[Job]) -> None:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._lanes, thread_name_prefix="model")
        self._lanes_free -= 1
        if self._lanes_free == 0:
            self._armed = True
            self._wake_at(self._queue.expires_at)
        loop = asyncio.get_running_loop()

        def work() -> None:
            loop.call_soon_threadsafe(self._thread_done, batch, self._predicted(batch))

        self._threads.submit(work)

    def _thread_done(self, batch: Batch[Job], ran: Predicted) -> None:
        """The thread gets its next batch before these answers are handed on."""
        self._lanes_free += 1
        self._account(batch, ran)
        following = self._next()
        if following is not None and self._is_long(following):
            self._run_in_thread(following)
            self._telling.ended(batch, ran)
            return
        self._telling.ended(batch, ran)
        self._armed = False
        if following is not None:
            self._run_here(following)
        else:
            self._flush()  # the answers may have brought work

    def _predicted(self, batch: Batch[Job]) -> Predicted:
        """In a thread if the batch is long, because so may be looking for who is to blame."""
        outputs: Outputs | Failed
        started = self._now()
        try:
            outputs = self._predict([job.rows for job in batch.jobs])
            if (count := len(outputs.logits)) != batch.rows:
                raise ValueError(f"{count} outputs for a batch of {batch.rows} rows")  # noqa: TRY301
        except Exception as error:  # noqa: BLE001  one bad batch must not stop the server
            outputs = sort_out(batch.jobs, error)
        return outputs, started, self._now()

    def _account(self, batch: Batch[Job], ran: Predicted) -> None:
        outputs, started, ended = ran
        self.busy_s += ended - started
        if isinstance(outputs, Failed):
            self._again.extend(outputs.again)
        else:
            self._curve.observe(batch.rows, ended - started)
            self._telling.counted(self._on_batch, batch.rows, ended - started)
        self._queue.ran(batch, ended)

    def _wake_at(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_at = at
        if at == inf:
            return
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(max(0.0, at - self._now()), self._woken)

    def _woken(self) -> None:
        """A wait for company is over, or somebody's time is up while every lane is busy."""
        self._timer, self._timer_at = None, inf
        if self._lanes_free == 0:
            self._telling.late(self._queue.expire(self._now()))
            self._wake_at(self._queue.expires_at)
        elif not self._armed:
            self._flush()

    def _close(self) -> None:
        self._wake_at(inf)
        if self._threads is not None:
            self._threads.shutdown(wait=False)
        self._finished.set()
