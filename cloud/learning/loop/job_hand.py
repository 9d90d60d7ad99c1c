"""Commands for the queue of training jobs, which is in this process."""

import asyncio
from typing import Final

from cloud.learning.loop import commands as c
from cloud.learning.loop import events as e
from cloud.learning.store.loops import LoopStore
from cloud.training.documents import ACTIVE, FineTune, JobState
from cloud.training.queue.queue import JobQueue
from cloud.training.store import job_rows
from cloud.training.store.database import LearningDatabase
from cloud.training.tracking.tracking import Tracking
from shared.errors import Conflict, Unavailable, Unknown

ACTOR: Final = "loop"
"""As the logs of queue and feedback store name it."""


class JobHand:
    def __init__(
        self, queue: JobQueue, tracking: Tracking, database: LearningDatabase, loops: LoopStore
    ) -> None:
        """`loops` keeps the feature checks."""
        self._queue, self._tracking, self._database = queue, tracking, database
        self._loops = loops

    async def submitted(self, command: c.Submit) -> e.Submitted:
        """Raises `Unavailable` while training reads other bytes than the teacher was served."""
        recipe = command.spec.recipe
        teacher = (recipe.teacher or "") if isinstance(recipe, FineTune) else ""
        for check in await asyncio.to_thread(self._loops.checks):
            if check.model == teacher.partition("@")[0] and check.inputs_differ:
                raise Unavailable(
                    f"{check.words} (feature check of {check.model} {check.version}; `hybridge loop "
                    f"check {check.model}` looks again)"
                )
        return e.Submitted((await self._queue.submit(command.spec, ACTOR, command.key)).id)

    async def seen(self, command: c.WatchJob) -> e.JobSeen:
        job = await self._queue.job(command.job)
        if job.state is not JobState.DONE:
            return e.JobSeen(job)
        return e.JobSeen(job, (await self._tracking.run(command.job)).figures)

    async def cancelled(self, command: c.CancelJob) -> e.CleanedUp:
        found = await asyncio.to_thread(
            self._database.read, lambda connection: job_rows.of_key(connection, ACTOR, command.key)
        )
        if found is None:  # it was never submitted
            return e.CleanedUp()
        job = await self._queue.job(found.id)
        if job.state not in ACTIVE:
            return e.CleanedUp(f"job {job.id} was {job.state} before")
        try:
            await self._queue.cancel(job.id, command.why[:500], ACTOR)
        except (Unknown, Conflict) as error:  # it ended meanwhile
            return e.CleanedUp(str(error))
        return e.CleanedUp(f"job {job.id} is cancelled")
