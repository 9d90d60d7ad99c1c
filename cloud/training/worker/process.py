"""A job's process at its work: heard to its last word, watched, and ended."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from cloud.training.child_messages import Failed, Made, Message, Order, Said, Stopped
from cloud.training.worker.apart import environment, folder_bytes, waited_for_core_s
from cloud.training.worker.child import Child
from cloud.training.worker.launch import Plan
from cloud.training.worker.racing import Asked, first
from cloud.training.worker.settings import TrainWorker
from cloud.training.worker.watch import Astray, Bounds, Watch

_LOOK_S: Final = 5.0
"""Between two looks at what a job has on disk."""
LastWord = Stopped | Failed | Made


class Process:
    """`run` once. It is raced against what is asked of the job: any of that begins its grace (`_until_asked`),
    and after the grace, or once the job is lost, it is killed (`_until_killed`, `Child.end`).
    """

    def __init__(
        self, settings: TrainWorker, asked: Asked, hear: Callable[[Message], None]
    ) -> None:
        self._settings, self._asked, self._hear = settings, asked, hear
        self._clock = asyncio.get_running_loop().time
        self._flooding = asyncio.Event()
        """Its stderr: what it reads of stdout says so itself."""
        self._last: LastWord | None = None
        self._began = self._ended = 0.0
        self._is_running = False
        self._waited_s = 0.0

    @property
    def worked_s(self) -> float:
        """From its start to its end, without what it waited for a core."""
        ended = self._clock() if self._is_running else self._ended
        return max(0.0, ended - self._began - self._waited_s)

    async def run(
        self, order: Order, place: Plan, left_s: float, words: Sequence[str]
    ) -> LastWord | int:
        """Its last word; its exit code where it had none. `left_s`: it may work for; `words`: it executes.

        Raises `Astray`, or `Unavailable` where it cannot be started.
        """
        settings = self._settings
        env = environment(
            order.threads, settings.gpus, order.folder / "tmp", settings.ray_address
        )  # fmt: skip
        bounds = Bounds(settings.start_s, settings.silence_s, left_s, settings.lines_per_s_max)
        began = self._clock()
        watch = Watch(bounds, began)
        child = await Child.start(
            order, place, env, lambda text: self._said_aside(watch, text), words
        )  # fmt: skip
        self._began, self._is_running = began, True
        reading = asyncio.create_task(self._read(child, watch), name="reading")
        looking = asyncio.create_task(self._look(order.folder, child.pid, watch), name="looking")
        within_s = 0.0
        try:
            await self._until_asked(watch, reading)
            within_s = await self._until_killed(child, reading)
        finally:
            looking.cancel()
            reading.cancel()
            await asyncio.wait([looking, reading])
            code = await child.end(within_s, self._asked.lost)
            self._ended, self._is_running = self._clock(), False
        return code if self._last is None else self._last

    async def _until_asked(self, watch: Watch, reading: asyncio.Task[None]) -> None:
        """To its last word, or until it is to end. Raises `Astray`."""
        asked = self._asked
        while not (reading.done() or asked.anything.is_set()):
            within_s = max(0.0, watch.look_at(self._clock()) - self._clock())
            await first(reading, asked.anything, self._flooding, within_s=within_s)
            if reading.done() or asked.anything.is_set():
                return
            if self._flooding.is_set():
                raise Astray(watch.why_flooded())
            if self._clock() >= watch.silent_at():
                raise Astray(watch.why_silent())
            if self._clock() >= watch.spent_at():
                asked.stop("time")

    async def _until_killed(self, child: Child, reading: asyncio.Task[None]) -> float:
        """To its last word; for how long it may live on then. Raises `Astray`."""
        within_s = self._settings.grace_s
        if not reading.done():
            child.ask_to_stop()
            killed_at = self._clock() + within_s
            await first(reading, self._asked.lost, within_s=within_s)
            within_s = max(0.0, killed_at - self._clock()) if reading.done() else 0.0
        if reading.done():
            reading.result()
        return within_s

    async def _read(self, child: Child, watch: Watch) -> None:
        """Every message, to the last word or the end. Raises `Astray`."""
        async for line in child.lines():
            message = watch.read(line, self._clock())
            self._hear(message)
            if isinstance(message, LastWord):
                self._last = message
                return

    def _said_aside(self, watch: Watch, text: str) -> None:
        """On its stderr."""
        if watch.may_say(self._clock()):
            self._hear(Said(text=text))
        else:
            self._flooding.set()

    async def _look(self, folder: Path, pid: int, watch: Watch) -> None:
        """What it has on disk, and how long it waited for a core: whoever gives way to everything else
        is not to blame for that.
        """
        most, waited_s = self._settings.folder_bytes_max, 0.0
        while True:
            await asyncio.sleep(_LOOK_S)
            before, waited_s = waited_s, max(waited_s, waited_for_core_s(pid))
            watch.waited(waited_s - before)
            self._waited_s += waited_s - before
            if await asyncio.to_thread(folder_bytes, folder) > most:
                self._asked.stop("disk")
                return
