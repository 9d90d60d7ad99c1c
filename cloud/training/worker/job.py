"""One job from its claim to its end: prepared, run in its own process, heard, stored."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, assert_never

from cloud.registry.artifacts.blobs import Blobs
from cloud.training.child_messages import (
    Checkpointed,
    Failed,
    Made,
    Measured,
    Message,
    Order,
    Said,
    Started,
    Stopped,
)
from cloud.training.documents import Artifact, Run
from cloud.training.queue.ending import Broke, Done, Ended, GaveBack
from cloud.training.store.claim_rows import Claimed
from cloud.training.store.job_rows import OVER
from cloud.training.worker import keeping
from cloud.training.worker.apart import environment, folder_bytes, waited_for_core_s
from cloud.training.worker.aways import Aways
from cloud.training.worker.bundles import begun_with
from cloud.training.worker.child import CHILD, Child, how_it_ended
from cloud.training.worker.desk import Desk, Held
from cloud.training.worker.leftovers import end_leftovers
from cloud.training.worker.notes import Notes
from cloud.training.worker.places import Places
from cloud.training.worker.preparing import Preparing
from cloud.training.worker.pushing import push, registry_of
from cloud.training.worker.racing import Overtaken, unless
from cloud.training.worker.settings import TrainWorker
from cloud.training.worker.sharing import Sharing
from cloud.training.worker.stopping import Stop, failed_as, stopped_as
from cloud.training.worker.watch import Astray, Bounds, Watch
from shared.errors import HybridgeError, Refused, Unavailable

log = logging.getLogger(__name__)
_LOOK_S: Final = 5.0
"""Between two looks at what a job has on disk."""


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


class JobRun:
    """`run` once, as a task; `stop` it from outside."""

    def __init__(self, job: Claimed, around: Surroundings) -> None:
        self.job = job
        self._around = around
        self._clock = asyncio.get_running_loop().time
        self._began = self._clock()
        self._waited_s = 0.0
        self._notes = Notes()
        self._progress = 0.0
        self._stop: Stop | None = None
        self._stopping = asyncio.Event()
        self._lost = asyncio.Event()
        self._flooding = asyncio.Event()
        """Its stderr: what it reads of stdout says so itself."""
        self._sharing = Sharing(
            job, around.preparing.folder(job.id), around.blobs, around.desk,
            around.settings.checkpoint_shared_s, self._lost,
        )  # fmt: skip
        self._last: Message | None = None
        self.is_told = False
        """Its end is stored: it has nothing more to say."""
        self.is_over = False
        """And it goes on nowhere."""

    def stop(self, how: Stop) -> None:
        """The first one counts, but that it is lost counts above all."""
        if self._stop is None or how == "lost":
            self._stop = how
            self._stopping.set()
        if how == "lost":
            self._lost.set()

    def held(self) -> Held:
        """For a beat: what it said until now, which this one forgets."""
        return Held(self.job, self._notes.taken(), self._worked_s(), self._progress)

    def put_back(self, held: Held) -> None:
        self._notes.put_back(held.notes)

    async def run(self) -> None:
        """To its end. What goes wrong with the job is told to the queue, never raised."""
        artifacts: list[Artifact] = []
        try:
            ended = await self._work(artifacts)
        except Overtaken:  # while it was prepared, or pushed
            assert self._stop is not None
            ended = stopped_as(self._stop, self.job.spec, self._around.settings)
        except Refused as error:
            ended = Broke(str(error))
        except Astray as error:  # tried again: it may have been this machine
            ended = GaveBack(f"its process was ended: {error}", costs=True)
        except Unavailable as error:  # a disk, a store, a registry: none of the job's doing
            ended = self._away(error)
        except Exception as error:
            log.exception("job_bug", extra={"job": self.job.id})
            ended = GaveBack(f"a bug of the worker: {type(error).__name__}: {error}", costs=True)
        finally:
            await self._sharing.settled()
            self._around.places.end(self.job.id)
        if self._stop == "lost":
            log.warning("job_lost", extra={"job": self.job.id})
            return
        if not (isinstance(ended, GaveBack) and ended.away):
            self._around.aways.over(self.job.id)
        try:
            await unless(self._lost, self._tell(ended, artifacts))
        except Overtaken:
            log.warning("job_lost", extra={"job": self.job.id, "how": type(ended).__name__})

    def _away(self, error: Unavailable) -> Ended:
        times = self._around.aways.again(self.job.id)
        log.warning(
            "job_cannot_work_here",
            extra={"job": self.job.id, "times": times, "why": str(error)[:300]},
        )
        return GaveBack(str(error), costs=False, away=times)

    async def _work(self, artifacts: list[Artifact]) -> Ended:
        around = self._around
        if self.job.spec.push:
            registry_of(around.settings.registry)  # before hours of work, not after them
        await asyncio.to_thread(end_leftovers, around.preparing.folder(self.job.id).absolute())
        preparing = around.preparing.order(self.job, self._said)
        order = await unless(self._stopping, preparing)
        ended = await self._in_process(order)
        if ended is not None:
            return ended
        made = self._last
        assert isinstance(made, Made)
        folder = order.folder
        self._notes.figures.update(made.figures)
        bundle = await asyncio.to_thread(keeping.bundle, around.blobs, folder, made)
        artifacts.append(bundle)
        artifacts += await asyncio.to_thread(keeping.artifacts, around.blobs, folder)
        ref, said = f"{made.name}@{made.version}", ""
        if self.job.spec.push:
            before = begun_with(self.job.spec.recipe)
            pushing = push(around.settings.registry, folder / bundle.name, self.job.id, before)
            # whoever made it in the grace after its time has made it
            made_late = self._stop in {"time", "disk"}
            said = await unless(self._lost if made_late else self._stopping, pushing)
        return Done(ref, bundle.sha256, said)

    async def _in_process(self, order: Order) -> Ended | None:
        """How it ended; None: it made a bundle."""
        around, settings, spec = self._around, self._around.settings, self.job.spec
        place = around.places.make(self.job.id, spec.cpus)
        env = environment(
            order.threads, settings.gpus, order.folder / "tmp", settings.ray_address
        )  # fmt: skip
        left_s = max(0.0, spec.max_duration_s - self.job.worked_s)
        bounds = Bounds(settings.start_s, settings.silence_s, left_s, settings.lines_per_s_max)
        watch = Watch(bounds, self._clock())
        child = await Child.start(
            order, place, env, lambda text: self._said_aside(watch, text), around.words
        )  # fmt: skip
        reading = asyncio.create_task(self._read(child, watch), name="reading")
        looking = asyncio.create_task(self._look(order.folder, child.pid, watch), name="looking")
        within_s = 0.0
        try:
            within_s = await self._until_over(child, watch, reading)
        finally:
            looking.cancel()
            reading.cancel()
            await asyncio.wait([looking, reading])
            code = await child.end(within_s)
        return await self._judged(code)

    async def _until_over(self, child: Child, watch: Watch, reading: asyncio.Task[None]) -> float:
        """To its last word; how long its end may take then. Raises `Astray`."""
        killed_at: float | None = None
        stopping = asyncio.create_task(self._stopping.wait(), name="stopping")
        flooding = asyncio.create_task(self._flooding.wait(), name="flooding")
        try:
            while not reading.done():
                if self._stop == "lost":
                    return 0.0
                if self._stop is not None and killed_at is None:
                    child.ask_to_stop()
                    killed_at = self._clock() + self._around.settings.grace_s
                ends = watch.look_at(self._clock()) if killed_at is None else killed_at
                waits = {reading} if self._stopping.is_set() else {reading, stopping, flooding}
                await asyncio.wait(
                    waits, timeout=max(0.0, ends - self._clock()),
                    return_when=asyncio.FIRST_COMPLETED,
                )  # fmt: skip
                if reading.done():
                    break
                now = self._clock()
                if killed_at is not None:
                    if now >= killed_at:
                        return 0.0
                elif self._flooding.is_set():
                    raise Astray(watch.why_flooded())
                elif now >= watch.silent_at():
                    raise Astray(watch.why_silent())
                elif now >= watch.spent_at():
                    self.stop("time")
            reading.result()
            grace_s = self._around.settings.grace_s
            return grace_s if killed_at is None else max(0.0, killed_at - self._clock())
        finally:
            stopping.cancel()
            flooding.cancel()

    async def _judged(self, code: int) -> Ended | None:
        match self._last:
            case Made() if self._stop != "lost":
                return None
            case Failed():
                return failed_as(self._last)
            case _:
                pass
        if self._stop is not None:
            await self._sharing.last()
            return stopped_as(self._stop, self.job.spec, self._around.settings)
        if isinstance(self._last, Stopped):
            return GaveBack("it stopped, and nobody had asked it to", costs=True)
        return GaveBack(how_it_ended(code), costs=True)

    async def _read(self, child: Child, watch: Watch) -> None:
        """Every message, to the last word or the end. Raises `Astray`."""
        async for line in child.lines():
            message = watch.read(line, self._clock())
            self._take(message)
            if isinstance(message, Stopped | Failed | Made):
                self._last = message
                return

    def _take(self, message: Message) -> None:
        around = self._around
        match message:
            case Started():
                resumed = message.resumed_step
                self._notes.run = Run(
                    id=self.job.id, parameters=message.parameters, data_set=self.job.spec.data_set,
                    code_version=around.code_version, machine=message.machine[:500],
                    started_at=around.now(),
                )  # fmt: skip
                self._said("it begins" if resumed is None else f"it goes on from step {resumed}")
            case Measured():
                self._progress = message.progress
                self._notes.measured(message.step, message.values, around.now())
            case Said():
                self._said(message.text)
            case Checkpointed():
                self._sharing.written(message.path)
            case Stopped() | Failed() | Made():
                pass
            case _:
                assert_never(message)

    def _said(self, text: str) -> None:
        self._notes.said(text, self._around.now())

    def _said_aside(self, watch: Watch, text: str) -> None:
        """On its stderr."""
        if watch.may_say(self._clock()):
            self._said(text)
        else:
            self._flooding.set()

    async def _look(self, folder: Path, pid: int, watch: Watch) -> None:
        """What it has on disk, and how long it waited for a core: whoever gives way to everything else
        is not to blame for that.
        """
        most, waited_s = self._around.settings.folder_bytes_max, 0.0
        while True:
            await asyncio.sleep(_LOOK_S)
            before, waited_s = waited_s, max(waited_s, waited_for_core_s(pid))
            watch.waited(waited_s - before)
            self._waited_s += waited_s - before
            if await asyncio.to_thread(folder_bytes, folder) > most:
                self.stop("disk")
                return

    async def _tell(self, ended: Ended, artifacts: Sequence[Artifact]) -> None:
        """Until the database takes it; whoever calls it ends it when the job is another's. What it will never
        take is left out, and the job failed.
        """
        around, pause_s = self._around, 0.2
        held: Held | None = None
        while True:
            try:
                async with around.desk.turn:
                    held = held or self.held()
                    state = await around.desk.end(held, ended, artifacts)
                    self.is_told, self.is_over = True, state in OVER
            except HybridgeError as error:
                log.warning(
                    "job_end_not_stored", extra={"job": self.job.id, "why": str(error)[:300]}
                )
                if isinstance(error, Refused) and held is not None:  # what it said is why
                    ended, artifacts = Broke(f"its end cannot be stored: {error}"), ()
                    held = replace(held, notes=Notes())
                await asyncio.sleep(pause_s)
                pause_s = min(5.0, pause_s * 2)
                continue
            event = "job_lost" if state is None else "job_ended"
            log.info(event, extra={"job": self.job.id, "how": type(ended).__name__})
            return

    def _worked_s(self) -> float:
        return self.job.worked_s + max(0.0, self._clock() - self._began - self._waited_s)
