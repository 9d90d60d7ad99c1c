"""One job from its claim to its end: prepared, run in its own process, heard, stored."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from cloud.registry.artifacts.blobs import Blobs
from cloud.training.child_messages import Failed, Made, Order, Stopped
from cloud.training.documents import Artifact
from cloud.training.queue.ending import Broke, Done, Ended, GaveBack
from cloud.training.store.claim_rows import Claimed
from cloud.training.store.job_rows import OVER
from cloud.training.worker import keeping
from cloud.training.worker.aways import Aways
from cloud.training.worker.bundles import begun_with
from cloud.training.worker.child import CHILD, how_it_ended
from cloud.training.worker.desk import Desk, Held
from cloud.training.worker.hearing import Hearing
from cloud.training.worker.leftovers import end_leftovers
from cloud.training.worker.notes import Notes
from cloud.training.worker.places import Places
from cloud.training.worker.preparing import Preparing
from cloud.training.worker.process import LastWord, Process
from cloud.training.worker.pushing import push, registry_of
from cloud.training.worker.racing import Asked, Overtaken, unless
from cloud.training.worker.settings import TrainWorker
from cloud.training.worker.sharing import Sharing
from cloud.training.worker.stopping import Stop, failed_as, stopped_as
from cloud.training.worker.threads import Threads
from cloud.training.worker.watch import Astray
from shared.errors import HybridgeError, Refused, Unavailable

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all jobs of a worker share."""

    settings: TrainWorker
    desk: Desk
    blobs: Blobs
    preparing: Preparing
    places: Places
    now: Callable[[], float]
    """Unix seconds."""
    code_version: str
    words: Sequence[str] = CHILD
    """What a job's process executes."""
    aways: Aways = field(default_factory=Aways)


async def _at_once() -> None:
    pass


class JobRun:
    """`run` once, as a task; `stop` it from outside. Its phases, and what each is raced against:

    1. `_ready`: its folder, and what it needs in it. Others ask it to end.
    2. `_at_work`: its process, in `Process`. Anything asks it to end, and then once more that it is lost.
    3. `_kept`, of one that made its bundle. Others ask it to end, not that its time was over meanwhile.
       `Sharing.last`, of one that goes on elsewhere. That it is lost; and it bounds itself.
    4. `_tell`. That it is lost.
    5. Threads that 1 to 3 left in its folder end. Nothing: nobody waits for them but its next run here.
    """

    def __init__(self, job: Claimed, around: Surroundings) -> None:
        self.job, self.asked = job, Asked()
        self._around = around
        self._threads = Threads()
        self._sharing = Sharing(
            job, around.preparing.folder(job.id), around.blobs, around.desk,
            around.settings.checkpoint_shared_s, self._threads,
        )  # fmt: skip
        self.heard = Hearing(job, self._sharing, around.now, around.code_version)
        self._process = Process(around.settings, self.asked, self.heard.take)
        self._artifacts: list[Artifact] = []
        self.is_told = False
        """Its end is stored, or is no matter of ours: it has nothing more to say."""
        self.is_over = False
        """And it goes on nowhere."""

    def stop(self, how: Stop) -> None:
        self.asked.stop(how)

    def held(self) -> Held:
        """For a beat: what it said until now, which this one forgets."""
        worked_s = self.job.worked_s + self._process.worked_s
        return Held(self.job, self.heard.notes.taken(), worked_s, self.heard.progress)

    def put_back(self, held: Held) -> None:
        self.heard.notes.put_back(held.notes)

    async def run(self, may_begin: Callable[[], Awaitable[None]] = _at_once) -> None:
        """To its end. What goes wrong with the job is told to the queue, never raised. Nothing of it writes in
        its folder before `may_begin`, nor after this.
        """
        try:
            ended = await self._ended(may_begin)
            if not (isinstance(ended, GaveBack) and ended.away):
                self._around.aways.over(self.job.id)
            await unless(self.asked.lost, self._tell(ended))
        except Overtaken:
            self.is_told = True
            log.warning("job_lost", extra={"job": self.job.id})
        finally:
            await self._sharing.end()
        await self._threads.settled()

    async def _ended(self, may_begin: Callable[[], Awaitable[None]]) -> Ended:
        asked = self.asked
        try:
            order = await unless(asked.others, self._ready(may_begin))
            last = await self._at_work(order)
            if isinstance(last, Made):
                return await unless(asked.others, self._kept(order.folder, last))
            ended = self._judged(last)
            if asked.how in {"preempt", "shutdown"} and isinstance(ended, GaveBack):
                await unless(asked.lost, self._sharing.last())
        except Overtaken:
            assert asked.by_others is not None
            ended = stopped_as(asked.by_others, self.job.spec, self._around.settings)
        except Refused as error:
            ended = Broke(str(error))
        except Astray as error:  # tried again: it may have been this machine
            ended = GaveBack(f"its process was ended: {error}", costs=True)
        except Unavailable as error:  # a disk, a store, a registry: none of the job's doing
            ended = self._away(error)
        except Exception as error:
            log.exception("job_bug", extra={"job": self.job.id})
            ended = GaveBack(f"a bug of the worker: {type(error).__name__}: {error}", costs=True)
        return ended

    async def _ready(self, may_begin: Callable[[], Awaitable[None]]) -> Order:
        around = self._around
        if self.job.spec.push:
            registry_of(around.settings.registry)  # before hours of work, not after them
        await may_begin()
        folder = around.preparing.folder(self.job.id).absolute()
        await self._threads.call(end_leftovers, folder)
        return await around.preparing.order(self.job, self._threads, self.heard.said)

    async def _at_work(self, order: Order) -> LastWord | int:
        around, spec = self._around, self.job.spec
        left_s = max(0.0, spec.max_duration_s - self.job.worked_s)
        try:
            place = around.places.make(self.job.id, spec.cpus)
            return await self._process.run(order, place, left_s, around.words)
        finally:
            around.places.end(self.job.id)

    async def _kept(self, folder: Path, made: Made) -> Done:
        around, spec = self._around, self.job.spec
        bundle = await self._threads.call(keeping.bundle, around.blobs, folder, made)
        self._artifacts.append(bundle)
        self._artifacts += await self._threads.call(keeping.artifacts, around.blobs, folder)
        said = ""
        if spec.push:
            before = begun_with(spec.recipe)
            said = await push(around.settings.registry, folder / bundle.name, self.job.id, before)
        return Done(f"{made.name}@{made.version}", bundle.sha256, said)

    def _judged(self, last: Stopped | Failed | int) -> Ended:
        """It made no bundle."""
        if isinstance(last, Failed):
            return failed_as(last)
        if (how := self.asked.how) is not None:
            return stopped_as(how, self.job.spec, self._around.settings)
        if isinstance(last, Stopped):
            return GaveBack("it stopped, and nobody had asked it to", costs=True)
        return GaveBack(how_it_ended(last), costs=True)

    def _away(self, error: Unavailable) -> Ended:
        times = self._around.aways.again(self.job.id)
        log.warning(
            "job_cannot_work_here",
            extra={"job": self.job.id, "times": times, "why": str(error)[:300]},
        )
        return GaveBack(str(error), costs=False, away=times)

    async def _tell(self, ended: Ended) -> None:
        """Until the database takes it. What it will never take is left out, and the job failed."""
        around, pause_s = self._around, 0.2
        held: Held | None = None
        while True:
            try:
                async with around.desk.turn:
                    held = held or self.held()
                    state = await around.desk.end(held, ended, self._artifacts)
                    self.is_told, self.is_over = True, state in OVER
            except HybridgeError as error:
                log.warning(
                    "job_end_not_stored", extra={"job": self.job.id, "why": str(error)[:300]}
                )
                if isinstance(error, Refused) and held is not None:  # what it said is why
                    ended, self._artifacts = Broke(f"its end cannot be stored: {error}"), []
                    held = replace(held, notes=Notes())
                await asyncio.sleep(pause_s)
                pause_s = min(5.0, pause_s * 2)
                continue
            event = "job_lost" if state is None else "job_ended"
            log.info(event, extra={"job": self.job.id, "how": type(ended).__name__})
            return
