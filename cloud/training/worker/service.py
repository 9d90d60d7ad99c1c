"""`hybridge-cloud train-worker`: a beat that renews, stores and claims, and a task for each job.

A job's error ends the job and nothing else. A database that is away stops no job before its lease is
over: then it may be another worker's, and goes on there.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

from cloud.training.cards import code_version
from cloud.training.store.blobs import open_blobs
from cloud.training.store.database import LearningDatabase
from cloud.training.tracking.tracking import Tracking
from cloud.training.worker.beating import Beating
from cloud.training.worker.bundles import BundleShelf
from cloud.training.worker.child import CHILD
from cloud.training.worker.config import WorkerConfig
from cloud.training.worker.desk import Answer, Desk
from cloud.training.worker.job import Surroundings
from cloud.training.worker.places import Places
from cloud.training.worker.preparing import Preparing
from cloud.training.worker.runs import Runs
from cloud.training.worker.threads import Daemons
from cloud.training.worker.work_dir import alone, make_folders
from shared.errors import Unavailable

log = logging.getLogger(__name__)
_DRAIN_S: Final = 20.0
"""Beside `grace_s`: to store what jobs left."""
_LEAVE_S: Final = 5.0
"""To say that it is gone."""


class TrainWorkerService:
    """`run` once. `ready` is called with the worker's name and what keeps its jobs apart."""

    def __init__(
        self,
        config: WorkerConfig,
        ready: Callable[[str, str], None],
        now: Callable[[], float] = time.time,
        words: Sequence[str] = CHILD,
    ) -> None:
        """`now` gives Unix seconds; `words`: what a job's process executes.

        Raises `Malformed` for a database's URL that is none.
        """
        self._config, self._announce, self._now, self._words = config, ready, now, words
        self._stop = asyncio.Event()
        self._kick = asyncio.Event()
        self._database = LearningDatabase(config.database_url, config.training.lease_s)
        self._runs = Runs(Tracking(self._database), config.worker.mlflow, self._kick)
        self._lacked = False

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    def stop(self) -> None:
        """Claim nothing new; jobs write a checkpoint and go back to the queue. At once: whoever tells the worker
        to end may tell its jobs' processes in the same moment.
        """
        self._stop.set()
        self._runs.stop("shutdown")
        self._kick.set()

    def read_again(self) -> None:
        """Nothing: keys and certificates are read for each connection."""

    async def run(self) -> bool:
        """Work until `stop`; whether every job was given back in time.

        Raises `Refused` or `Unavailable` when it cannot start.
        """
        config = self._config
        asyncio.get_running_loop().set_default_executor(Daemons())
        await asyncio.to_thread(make_folders, config)
        with alone(config.work_dir) as token:
            return await self._work(token)

    async def _work(self, token: str) -> bool:
        config = self._config
        blobs = open_blobs(config.artifacts, config.state_dir)
        await asyncio.to_thread(blobs.check)
        shelf = BundleShelf(config.worker.bundles, config.worker.registry, config.state_dir)
        places = Places(config)
        apart = await places.probe()
        database = self._database
        try:
            await asyncio.to_thread(database.open)
            desk = Desk(
                database,
                config.training,
                config.name,
                token,
                config.cpus,
                self._now,
            )
            preparing = Preparing(config.worker, blobs, shelf, config.work_dir)
            around = Surroundings(
                config.worker, desk, blobs, preparing, places, self._now,
                await asyncio.to_thread(code_version), self._words,
            )  # fmt: skip
            return await self._serve(around, apart)
        finally:
            await asyncio.to_thread(database.close)

    async def _serve(self, around: Surroundings, apart: str) -> bool:
        """What the database gave this worker is in `_runs.by_job` until its end is told, or comes with the answer
        of the beat under way; all else that it does is in `_runs.tasks`. So it ends, once it is told to, when
        there is neither a task nor a beat that may bring jobs; and at `until`, when all of them are cancelled.
        """
        config, loop = self._config, asyncio.get_running_loop()
        await around.desk.begin(apart)  # raises where another has the name
        await asyncio.to_thread(around.preparing.prune, frozenset())
        log.info("train_worker", extra={"worker": config.name, "apart": apart, "cpus": config.cpus})
        self._announce(config.name, apart)
        beating = Beating(lambda: self._beat(around, apart), config.training.lease_s)
        until, in_time = float("inf"), True
        try:
            async with asyncio.TaskGroup() as tasks:
                while not self._is_drained or beating.may_bring_jobs:
                    if self.stopping:
                        until = min(until, loop.time() + config.worker.grace_s + _DRAIN_S)
                        self._runs.stop("shutdown")
                    if (answer := await beating.answer(self._kick, until)) is not None:
                        self._act(answer, around, tasks)
                    elif beating.is_lease_over:
                        self._runs.stop("lost")
                    if loop.time() >= until:
                        in_time = self._runs.cut()
                        break
                    if not (beating.is_under_way or self._is_drained):
                        await self._pause(config.worker.beat_s)
            if not beating.is_under_way:
                await self._leave(around.desk)
            return in_time
        finally:
            await beating.end()

    @property
    def _is_drained(self) -> bool:
        return self.stopping and not self._runs.tasks

    async def _leave(self, desk: Desk) -> None:
        try:
            async with asyncio.timeout(_LEAVE_S):
                await desk.gone()
        except (Unavailable, TimeoutError) as error:
            log.warning("learning_database_away", extra={"why": str(error)[:300]})

    async def _lacks_room(self, preparing: Preparing) -> str:
        """Why it takes no jobs, said once; empty where it does."""
        lacks = await asyncio.to_thread(preparing.lacks_room)
        if lacks:
            await asyncio.to_thread(preparing.make_room, frozenset(self._runs.by_job))
            lacks = await asyncio.to_thread(preparing.lacks_room)
        if lacks and not self._lacked:
            log.warning("no_room_for_jobs", extra={"why": lacks})
        elif self._lacked and not lacks:
            log.info("room_for_jobs_again")
        self._lacked = bool(lacks)
        return lacks

    async def _beat(self, around: Surroundings, apart: str) -> Answer:
        lacks = await self._lacks_room(around.preparing)
        async with around.desk.turn:
            runs = self._runs.untold()
            held = [run.held() for run in runs]
            claims = not self.stopping and not lacks
            says = f"takes no jobs: {lacks}; {apart}" if lacks else apart
            try:
                return await around.desk.beat(held, says, claims=claims)
            except BaseException:
                for run, one in zip(runs, held, strict=True):
                    run.put_back(one)
                raise

    def _act(self, answer: Answer, around: Surroundings, tasks: asyncio.TaskGroup) -> None:
        by_job = self._runs.by_job
        for job, how in answer.stops.items():
            if job in by_job:
                by_job[job].stop("cancel" if how == "cancel" else "preempt")
        for job in answer.lost:
            if job in by_job:
                by_job[job].stop("lost")
        for claimed in answer.claimed:
            self._runs.begin(claimed, around, tasks)
        if self.stopping:  # meanwhile
            self._runs.stop("shutdown")

    async def _pause(self, pause_s: float) -> None:
        """Until the next beat is due; a job that ends, or a stop, brings it on."""
        try:
            async with asyncio.timeout(pause_s):
                await self._kick.wait()
        except TimeoutError:
            pass
        self._kick.clear()
