"""The loops as those see them who set them, look at them and say go or stop."""

import asyncio
from collections.abc import Callable

from cloud.learning.documents import Cycle, Decision, Loop, LoopSettings, TriggerKind
from cloud.learning.loop.changes import Changes
from cloud.learning.loop.driver import LoopDriver
from cloud.learning.loop.events import Go, Stop
from cloud.learning.loop.triggers import next_at
from cloud.learning.store.loops import KeptLoop, Line, LoopStore
from cloud.learning.store.reading import Unreadable


class LoopDesk:
    """Everything raises `Unavailable` while the learning database is away, or what it has of a loop or
    cycle that is asked for by its name is not as this version keeps it.
    """

    def __init__(
        self, store: LoopStore, driver: LoopDriver, changes: Changes, now: Callable[[], float]
    ) -> None:
        """`now` gives Unix seconds."""
        self._store, self._driver, self._changes, self._now = store, driver, changes, now

    async def loops(self) -> list[Loop]:
        """In the order of their models; those whose settings can be read."""
        return await asyncio.to_thread(lambda: [self._loop(kept) for kept in self._store.loops()])

    async def loop(self, model: str) -> Loop:
        """Raises `Unknown`."""
        return await asyncio.to_thread(lambda: self._loop(self._store.loop(model)))

    async def put(self, settings: LoopSettings, revision: int | None) -> Loop:
        """Make it, or change it for its next cycle. Raises `Conflict`, also where no cycle of it could
        find a sample; `Overloaded`.
        """
        if settings.enabled:
            await asyncio.to_thread(self._store.check_times, settings)
        await asyncio.to_thread(self._store.put, settings, revision, self._now())
        self._driver.kick()
        return await self.loop(settings.model)

    async def remove(self, model: str, revision: int | None) -> None:
        """With a cycle that runs and cannot be read. Raises `Unknown`, `Conflict`."""
        await asyncio.to_thread(self._store.remove, model, revision)

    async def begin(self, model: str, by: str, comment: str) -> Cycle:
        """Whatever its triggers say. Raises `Unknown`; `Conflict` while one runs."""
        words = f"{by} began it" + (f": {comment}" if comment else "")
        return (await self._driver.begin(model, TriggerKind.PERSON, words)).cycle

    async def cycle(self, cycle: str) -> Cycle:
        """Raises `Unknown`."""
        return (await asyncio.to_thread(self._store.cycle, cycle)).cycle

    async def cycles(self, model: str, after: str | None, limit: int) -> list[Cycle]:
        """The newest first. Raises `Unknown` for an `after` that is not here any more."""
        return await asyncio.to_thread(self._store.cycles, model, after, limit)

    async def lines(self, cycle: str) -> list[Line]:
        """What happened to it, the oldest first. Raises `Unknown`."""
        return await asyncio.to_thread(self._store.lines, cycle)

    async def decide(self, cycle: str, decision: Decision, by: str, revision: int | None) -> Cycle:
        """Raises `Unknown`; `Conflict` where it has moved on, or asks nobody."""
        event = Go(by, decision.comment) if decision.verb == "go" else Stop(by, decision.comment)
        record = await asyncio.to_thread(self._store.step, cycle, event, self._now(), revision)
        self._changes.happened(cycle)
        self._driver.kick(cycle)
        return record.cycle

    async def watch(self, cycle: str, seen: int, wait_s: float, ending: asyncio.Event) -> Cycle:
        """The cycle once its revision is not `seen`, when this process ends, or after `wait_s`. Raises
        `Unknown`.
        """
        with self._changes.watched(cycle) as happened:  # before the look
            found = await self.cycle(cycle)
            if found.revision != seen or found.ended_at is not None:
                return found
            waits = {asyncio.create_task(one.wait()) for one in (happened, ending)}
            try:
                await asyncio.wait(waits, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for one in waits:
                    one.cancel()
            return await self.cycle(cycle)

    def _loop(self, kept: KeptLoop) -> Loop:
        model = kept.settings.model
        name, record = self._store.running_of(model) or (None, None)
        try:
            last = self._store.last(model)
        except Unreadable:
            last = None
        last_cycle = None if last is None else last.cycle
        return Loop(
            settings=kept.settings, revision=kept.revision,
            cycle=None if record is None else record.cycle,
            unreadable=name if record is None else None, last=last_cycle,
            next_at=next_at(kept.settings, last_cycle),
        )  # fmt: skip
