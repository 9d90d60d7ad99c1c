"""Run a model over batches: the asyncio shell around `BatchQueue`.

Fires when idle: the first request wakes `run` for the next loop round, so that what one poll
brought in is one batch and nothing waits for a timer. While a batch runs, the next one collects.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

from cloud.serving.batch_queue import BatchQueue
from cloud.serving.latency_curve import LatencyCurve
from shared.errors import DeadlineMissed, Unavailable

S = TypeVar("S")
A = TypeVar("A")

INLINE_S_MAX = 0.001
"""A batch that is expected to take longer than this leaves the event loop for the worker thread."""


class Draining(Unavailable):
    """This worker shuts down; another one, or this one later, can answer."""


@dataclass(frozen=True, slots=True)
class Ran(Generic[A]):
    """One answer with its two stages."""

    answer: A
    queue_s: float
    run_s: float


@dataclass(frozen=True, slots=True)
class _Job(Generic[S, A]):
    sample: S
    added: float
    done: "asyncio.Future[Ran[A]]"


class Batcher(Generic[S, A]):
    """One model's queue. `predict` answers [samples] with [answers] and may be run in a thread."""

    def __init__(
        self,
        predict: Callable[[Sequence[S]], Sequence[A]],
        curve: LatencyCurve,
        *,
        size_max: int,
        wait_s_max: float = 0.0,
        depth_max: int = 1024,
        on_batch: Callable[[int, float], None] = lambda _size, _run_s: None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`now` is a clock of its own because uvloop's stands still within a round, to the ms."""
        self._predict, self._curve = predict, curve
        self._on_batch, self._now = on_batch, now
        self._queue = BatchQueue[_Job[S, A]](
            curve, size_max=size_max, wait_s_max=wait_s_max, depth_max=depth_max
        )
        self._changed = asyncio.Event()
        self._draining = False
        self._thread: ThreadPoolExecutor | None = None

    @property
    def depth(self) -> int:
        return len(self._queue)

    async def infer(self, sample: S, deadline: float) -> Ran[A]:
        """Answer by `deadline`, by this batcher's clock.

        Raises `DeadlineMissed`, `QueueFull` or `Draining` at once, or what the model raised.
        """
        if self._draining:
            raise Draining("this worker is shutting down; send it again")
        now = self._now()
        job: _Job[S, A] = _Job(sample, now, asyncio.get_running_loop().create_future())
        self._queue.add(job, now=now, deadline=deadline)
        self._changed.set()
        return await job.done

    def drain(self) -> None:
        """Take no more work; `run` returns once everything accepted is answered."""
        self._draining = True
        self._changed.set()

    async def run(self) -> None:
        try:
            while True:
                self._changed.clear()
                batch = self._queue.take(self._now())
                for job in batch.missed:
                    _fail(job, DeadlineMissed("the machine is slower than measured; try again"))
                if batch.items:
                    await self._answer(batch.items)
                elif batch.missed:
                    continue
                elif (due := self._queue.due_at()) is not None:
                    await self._changed_before(due)
                elif self._draining:
                    return
                else:
                    await self._changed.wait()
        finally:
            if self._thread is not None:
                self._thread.shutdown(wait=False)

    async def _changed_before(self, due: float) -> None:
        try:
            async with asyncio.timeout(due - self._now()):
                await self._changed.wait()
        except TimeoutError:
            pass

    async def _answer(self, batch: list[_Job[S, A]]) -> None:
        jobs = [job for job in batch if not job.done.done()]  # the others hung up
        if not jobs:
            self._queue.ran(self._now())
            return
        samples = [job.sample for job in jobs]
        inline = self._curve.cost_s(len(jobs)) <= INLINE_S_MAX
        started = self._now()
        try:
            answers = self._predict(samples) if inline else await self._in_thread(samples)
            if len(answers) != len(jobs):
                raise ValueError(f"{len(answers)} answers for a batch of {len(jobs)}")  # noqa: TRY301
        except Exception as error:  # noqa: BLE001  one bad batch must not stop the server
            self._queue.ran(self._now())
            await self._one_by_one(jobs, error)
            return
        ended = self._now()
        self._queue.ran(ended)
        self._curve.observe(len(jobs), ended - started)
        self._on_batch(len(jobs), ended - started)
        for job, answer in zip(jobs, answers, strict=True):
            if not job.done.done():
                job.done.set_result(Ran(answer, started - job.added, ended - started))
        if inline:
            await asyncio.sleep(0)  # a round for the loop to take and to send
        # else the thread gets its next batch before the loop hands these answers on

    async def _one_by_one(self, jobs: list[_Job[S, A]], error: Exception) -> None:
        """A batch failed: the sample that is to blame fails alone."""
        if len(jobs) == 1:
            _fail(jobs[0], error)
            return
        for job in jobs:
            await self._answer([job])

    async def _in_thread(self, samples: list[S]) -> Sequence[A]:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="model")
        return await asyncio.get_running_loop().run_in_executor(
            self._thread, self._predict, samples
        )


def _fail(job: _Job[S, A], error: Exception) -> None:
    if not job.done.done():
        job.done.set_exception(error)
