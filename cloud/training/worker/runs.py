"""The jobs that a worker has: a run and a task for each, and what follows it."""

import asyncio
import logging
from collections.abc import Sequence

from cloud.training.store.claim_rows import Claimed
from cloud.training.tracking.mlflow import copy_to
from cloud.training.tracking.tracking import Tracking
from cloud.training.worker.job import JobRun, Surroundings
from cloud.training.worker.stopping import Request

log = logging.getLogger(__name__)


class Runs:
    """What the database gave is in `by_job` until its end is told; all that is done for jobs is in `tasks`."""

    def __init__(self, tracking: Tracking, mlflow: str | None, kick: asyncio.Event) -> None:
        """`kick` is set when a job or what follows it ends; `mlflow`: the server's URL."""
        self._tracking, self._mlflow, self._kick = tracking, mlflow, kick
        self.by_job: dict[str, JobRun] = {}
        self.tasks: dict[asyncio.Task[None], str] = {}
        """And for which job."""
        self._clearing = asyncio.Lock()
        """Of old folders: no job begins in one that goes."""

    def stop(self, how: Request) -> None:
        """All of them, at once."""
        for run in self.by_job.values():
            run.stop(how)

    def untold(self) -> list[JobRun]:
        return [run for _, run in sorted(self.by_job.items()) if not run.is_told]

    def cut(self) -> bool:
        """End everything now; whether nothing of a job of ours is left untold."""
        left = [run.job.id for run in self.untold() if run.asked.how != "lost"]
        log.error("drain_cut", extra={"jobs": left})
        for task in self.tasks:
            task.cancel()
        return not left

    def begin(self, claimed: Claimed, around: Surroundings, tasks: asyncio.TaskGroup) -> None:
        log.info("job_begins", extra={"job": claimed.id, "attempt": claimed.attempts})
        before = [task for task, job in self.tasks.items() if job == claimed.id]
        run = self.by_job[claimed.id] = JobRun(claimed, around)
        task = tasks.create_task(self._run(run, before, around), name=f"job {claimed.id}")
        self.tasks[task] = claimed.id
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        del self.tasks[task]
        self._kick.set()

    async def _run(
        self, run: JobRun, before: Sequence[asyncio.Task[None]], around: Surroundings
    ) -> None:
        job = run.job.id
        try:
            await run.run(lambda: self._may_begin(before))
        finally:
            if self.by_job.get(job) is run:
                del self.by_job[job]
            self._kick.set()
        async with self._clearing:
            if run.is_over:
                await asyncio.to_thread(around.preparing.remove, job)
            await asyncio.to_thread(around.preparing.prune, frozenset(self.by_job))
        if self._mlflow is not None:
            await copy_to(self._mlflow, self._tracking, job)

    async def _may_begin(self, before: Sequence[asyncio.Task[None]]) -> None:
        """`before`: its runs here, which lost it; two in one folder would spoil it for both."""
        if before:
            await asyncio.wait(before)
        async with self._clearing:
            pass  # what began before this job was here; whatever begins later lets its folder be
