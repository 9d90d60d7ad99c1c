"""Commands for the queue of training jobs, which is in this process."""

import asyncio

from cloud.learning.loop import commands as c
from cloud.learning.loop import events as e
from cloud.learning.loop.actor import ACTOR
from cloud.learning.store.loops import LoopStore
from cloud.training.documents import ACTIVE, FineTune, JobState, Recipe
from cloud.training.queue.queue import JobQueue
from cloud.training.store import job_rows
from cloud.training.store.database import LearningDatabase
from cloud.training.tracking.tracking import Tracking
from shared.errors import Conflict, Unavailable, Unknown


class JobHand:
    def __init__(
        self, queue: JobQueue, tracking: Tracking, database: LearningDatabase, loops: LoopStore
    ) -> None:
        """`loops` keeps the feature checks."""
        self._queue, self._tracking, self._database = queue, tracking, database
        self._loops = loops

    async def submitted(self, command: c.Submit) -> e.Submitted:
        """Raises `Unavailable` while training reads other bytes than the teacher was served."""
        found = await asyncio.to_thread(self._of_key, command.key)
        if found is None:
            await self._check_features(command.spec.recipe)
        return e.Submitted((await self._queue.submit(command.spec, ACTOR, command.key)).id)

    async def _check_features(self, recipe: Recipe) -> None:
        teacher = recipe.teacher if isinstance(recipe, FineTune) else None
        for check in await asyncio.to_thread(self._loops.checks):
            if f"{check.model}@{check.version}" == teacher and check.inputs_differ:
                raise Unavailable(
                    f"{check.words} (feature check of {check.model} {check.version}; `hybridge loop "
                    f"check {check.model}` looks again)"
                )

    def _of_key(self, key: str) -> str | None:
        """The job's id."""
        found = self._database.read(lambda connection: job_rows.of_key(connection, ACTOR, key))
        return None if found is None else str(found.id)

    async def seen(self, command: c.WatchJob) -> e.JobSeen:
        job = await self._queue.job(command.job)
        if job.state is not JobState.DONE:
            return e.JobSeen(job)
        return e.JobSeen(job, (await self._tracking.run(command.job)).figures)

    async def cancelled(self, command: c.CancelJob) -> e.CleanedUp:
        found = await asyncio.to_thread(self._of_key, command.key)
        if found is None:  # it was never submitted
            return e.CleanedUp()
        job = await self._queue.job(found)
        if job.state not in ACTIVE:
            return e.CleanedUp(f"job {job.id} was {job.state} before")
        try:
            await self._queue.cancel(job.id, command.why[:500], ACTOR)
        except (Unknown, Conflict) as error:  # it ended meanwhile
            return e.CleanedUp(str(error))
        return e.CleanedUp(f"job {job.id} is cancelled")
