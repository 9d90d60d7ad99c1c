"""Run a model over batches: the asyncio shell around `BatchQueue`.

Fires when idle: the first job of a round arms `call_soon`, so that what one poll brought in is one
batch and nothing waits for a timer. While a batch runs, the next one collects. There is no task and
no future per job: it is told by a call.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from cloud.serving.batch_queue import Batch, BatchQueue, BatchRules
from cloud.serving.job import Awaited, Job, Outputs, Priority, Ran, Rows
from cloud.serving.latency_curve import LatencyCurve
from shared.errors import DeadlineMissed, Unavailable
from shared.logs import OncePer

log = logging.getLogger(__name__)

INLINE_S_MAX = 0.001
"""A batch that is expected to take longer than this leaves the event loop for the worker thread."""
_LOG_PERIOD_S = 60.0
_MISSED = "the machine is slower than measured, or others were ahead; send it again"


class Draining(Unavailable):
    """This worker shuts down; another one, or this one later, can answer."""


class Batcher:
    """One model's queue, on one event loop.

    `predict` gives the outputs of all rows of a batch's jobs, in their order; it may be called in a
    thread, but by one at a time.
    """

    def __init__(
        self,
        predict: Callable[[Sequence[Rows]], Outputs],
        curve: LatencyCurve,
        *,
        rules: BatchRules,
        on_batch: Callable[[int, float], None] = lambda _rows, _run_s: None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`on_batch(rows, run_s)` is called after each batch.

        `now` is a clock of its own because uvloop's stands still within a round, to the ms.
        """
        self._predict, self._curve = predict, curve
        self._on_batch, self._now = on_batch, now
        self._queue = BatchQueue[Job](curve, rules)
        self._alone: deque[Job] = deque()  # of a batch that failed
        self._armed = False  # a `_flush` is to come: in this round, or when the thread is done
        self._in_thread = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._thread: ThreadPoolExecutor | None = None
        self._draining = False
        self._finished = asyncio.Event()
        self._left = dict.fromkeys(("full", "preferred", "idle", "due", "drained", "retried"), 0)
        self._left_by_priority = dict.fromkeys(Priority, 0)
        self._once = OncePer(_LOG_PERIOD_S)
        self.busy_s = 0.0
        """Seconds in which the model has run."""
        self.failed_callbacks = 0
        """Calls of a job's that raised."""
        self.missed = 0
        """Jobs that were accepted and then not answered in time."""

    @property
    def depth(self) -> int:
        """Rows that wait."""
        return self._queue.depth + len(self._alone)

    @property
    def left(self) -> Mapping[str, int]:
        """Batches by why they left (see `Batch`), and `retried`: one job of a batch that failed."""
        return self._left

    @property
    def left_by_priority(self) -> Mapping[Priority, int]:
        """Batches by the priority of their most urgent job."""
        return self._left_by_priority

    def rows_max(self, priority: Priority) -> int:
        """Rows that one job may have; whoever has more splits them."""
        return self._queue.rows_max(priority)

    def submit(self, job: Job) -> None:
        """Admit; `job.answered` or `job.failed` is called later, once, on the event loop.

        Raises `QueueFull`, `DeadlineMissed`, `Draining`, `TooLarge` or `Malformed` at once.
        """
        if self._draining:
            raise Draining("this worker is shutting down; send it again")
        self._queue.add(job, self._now())
        if not self._armed:
            self._arm()
        elif self._in_thread and self._queue.expires_at < self._timer_at:
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
        self._armed = False
        if jobs := self._next():
            self._run(jobs)
        else:
            self._rest()

    def _rest(self) -> None:
        """Nothing leaves now."""
        if self._queue.depth:
            self._wake_at(self._queue.leaves_at)
        elif self._draining:
            self._close()

    def _next(self) -> list[Job]:
        """What leaves now; empty: nothing does."""
        while self._alone or self._queue.depth:
            now = self._now()
            if self._alone:
                jobs, why = self._retry(now), "retried"
            else:
                batch = self._queue.take(now)
                if batch is None:
                    break
                jobs, why = self._living(batch), batch.why
            if jobs:
                self._left[why] += 1
                self._left_by_priority[min(jobs[0].priority, jobs[-1].priority)] += 1
                return jobs
            self._queue.ran(now)
        return []

    def _living(self, batch: Batch[Job]) -> list[Job]:
        """Those who still want an answer; the late ones are told."""
        self._fail_late(batch.missed)
        return [job for job in batch.jobs if not job.gone]

    def _retry(self, now: float) -> list[Job]:
        job = self._alone.popleft()
        if job.gone:
            return []
        if now + self._curve.cost_s(len(job.rows)) > job.deadline:
            self._fail_late([job])
            return []
        return [job]

    def _run(self, jobs: list[Job]) -> None:
        rows = [job.rows for job in jobs]
        count = sum(map(len, rows))
        if self._curve.cost_s(count) > INLINE_S_MAX:
            self._run_in_thread(jobs, rows, count)
            return
        started = self._now()
        try:
            outputs = self._checked(rows, count)
        except Exception as error:  # noqa: BLE001  one bad batch must not stop the server
            self._queue.ran(self._now())
            self._failed(jobs, error)
        else:
            ended = self._now()
            self._ran(count, started, ended)
            self._answer(jobs, outputs, started, ended - started)
        if not self._armed and (self._alone or self._queue.depth or self._draining):
            self._arm()  # after a round for the loop, to read and to send

    def _run_in_thread(self, jobs: list[Job], rows: list[Rows], count: int) -> None:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="model")
        self._armed = self._in_thread = True
        self._timer_at = float("inf")
        self._wake_at(self._queue.expires_at)
        loop = asyncio.get_running_loop()

        def work() -> None:
            outputs: Outputs | Exception
            started = self._now()
            try:
                outputs = self._checked(rows, count)
            except Exception as error:  # noqa: BLE001  one bad batch must not stop the server
                outputs = error
            ended = self._now()
            loop.call_soon_threadsafe(self._thread_done, jobs, count, outputs, started, ended)

        self._thread.submit(work)

    def _thread_done(
        self, jobs: list[Job], count: int, outputs: Outputs | Exception,
        started: float, ended: float,
    ) -> None:  # fmt: skip
        """The thread gets its next batch before these answers are handed on."""
        self._in_thread = False
        if isinstance(outputs, Exception):
            self._queue.ran(ended)
            self._failed(jobs, outputs)
        else:
            self._ran(count, started, ended)
        following = self._next()
        started_next = self._is_long(following)
        if started_next:
            self._run(following)
        if not isinstance(outputs, Exception):
            self._answer(jobs, outputs, started, ended - started)
        if started_next:
            return
        self._armed = False
        if following:
            self._run(following)
        elif self._alone or self._queue.depth or self._draining:
            self._flush()  # the answers may have brought work

    def _is_long(self, jobs: list[Job]) -> bool:
        return self._curve.cost_s(sum(len(job.rows) for job in jobs)) > INLINE_S_MAX

    def _checked(self, rows: list[Rows], count: int) -> Outputs:
        outputs = self._predict(rows)
        if len(outputs.logits) != count:
            raise ValueError(f"{len(outputs.logits)} outputs for a batch of {count} rows")
        return outputs

    def _ran(self, count: int, started: float, ended: float) -> None:
        self.busy_s += ended - started
        self._curve.observe(count, ended - started)
        self._queue.ran(ended)
        try:
            self._on_batch(count, ended - started)
        except Exception as error:  # noqa: BLE001
            self._raised(error, "on_batch")

    def _failed(self, jobs: list[Job], error: Exception) -> None:
        """The sample that is to blame fails alone."""
        if len(jobs) == 1:
            self._fail(jobs[0], error)
        else:
            self._alone.extend(jobs)

    def _answer(self, jobs: list[Job], outputs: Outputs, started: float, run_s: float) -> None:
        at = 0
        for job in jobs:
            end = at + len(job.rows)
            try:
                job.answered(Ran(outputs[at:end], started - job.added, run_s))
            except Exception as error:  # noqa: BLE001  whatever it is, it is its own
                self._raised(error, "answered")
            at = end

    def _fail_late(self, jobs: list[Job]) -> None:
        self.missed += len(jobs)
        for job in jobs:
            self._fail(job, DeadlineMissed(_MISSED))

    def _fail(self, job: Job, error: Exception) -> None:
        try:
            job.failed(error)
        except Exception as raised:  # noqa: BLE001  whatever it is, it is its own
            self._raised(raised, "failed")

    def _raised(self, error: Exception, which: str) -> None:
        """A closed transport raises when it is written to; its batch mates get their answers."""
        self.failed_callbacks += 1
        held = self._once.admits(which, time.monotonic())
        if held is not None:
            log.error(
                "batch_callback_raised", extra={"callback": which, "held": held}, exc_info=error
            )

    def _wake_at(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_at = at
        if at == float("inf"):
            return
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(max(0.0, at - self._now()), self._woken)

    def _woken(self) -> None:
        """A wait for company is over, or somebody's time is up while the thread is busy."""
        self._timer = None
        if not self._in_thread:
            if not self._armed:
                self._flush()
            return
        self._fail_late(self._queue.expire(self._now()))
        self._wake_at(self._queue.expires_at)

    def _close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._thread is not None:
            self._thread.shutdown(wait=False)
        self._finished.set()
