"""Drives cycles: what stands in a cycle is done, and what became of it is stored.

Kill it at any point: what was stored is done again, and finds what it made before. One task for each
cycle that runs, so as many as there are loops, and one for what begins them.
"""

import asyncio
import logging
import time
from collections.abc import Callable

from cloud.learning.documents import TriggerKind
from cloud.learning.loop.changes import Changes
from cloud.learning.loop.commands import WATCHES, AnyCommand, Count
from cloud.learning.loop.events import Answer, Answered, Away
from cloud.learning.loop.hands import Hands
from cloud.learning.loop.record import CycleRecord
from cloud.learning.loop.settings import Loops
from cloud.learning.loop.triggering import Triggering
from cloud.learning.loop.trouble import Trouble
from cloud.learning.loop.waiting import set_within
from cloud.learning.metrics import LearningMetrics
from cloud.learning.store.loops import LoopStore
from shared.errors import HybridgeError, Refused, Unavailable

log = logging.getLogger(__name__)


class LoopDriver:
    """`run` until `drain`."""

    def __init__(
        self,
        store: LoopStore,
        hands: Hands,
        settings: Loops,
        changes: Changes,
        metrics: LearningMetrics,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`now` gives Unix seconds."""
        self._store, self._hands, self._settings, self._now = store, hands, settings, now
        self._changes, self._metrics = changes, metrics
        self._trouble = Trouble(log, now)
        self._triggering = Triggering(store, hands, settings, self.begin, now)
        self._kicks: dict[str, asyncio.Event] = {}
        self._wake, self._drained = asyncio.Event(), False
        """The first is set where the running cycles are others."""

    def kick(self, cycle: str | None = None) -> None:
        """A person changed the cycle, or (None) the loops."""
        if cycle is None:
            self._triggering.kick()
        elif cycle in self._kicks:
            self._kicks[cycle].set()

    def drain(self) -> None:
        self._drained = True
        self._wake.set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            triggering = tasks.create_task(self._triggering.run(), name="triggers")
            running: dict[str, asyncio.Task[None]] = {}
            while not self._drained:
                self._wake.clear()
                try:
                    for record in await asyncio.to_thread(self._store.running):
                        name = record.cycle.id
                        if name not in running:
                            running[name] = tasks.create_task(self._drive(name), name=name)
                except HybridgeError as error:
                    self._trouble.say("loop_store_away", error)
                running = {name: task for name, task in running.items() if not task.done()}
                self._metrics.cycles.set(len(running))
                await set_within(self._wake, self._settings.trigger_s)
            for task in (triggering, *running.values()):
                task.cancel()

    async def begin(self, model: str, trigger: TriggerKind, words: str) -> CycleRecord:
        """Raises `Unknown`, `Conflict` while one runs."""
        record = await asyncio.to_thread(self._store.begin, model, trigger, words, self._now())
        self._told(record)
        self._wake.set()
        return record

    async def _drive(self, name: str) -> None:
        kick = self._kicks[name] = asyncio.Event()
        try:
            while True:
                try:
                    if await self._turn(name, kick):
                        return
                except Unavailable as error:  # the learning database; nothing was changed
                    self._trouble.say("loop_store_away", error)
                    await set_within(kick, self._settings.away_s)
                except Refused as error:  # one cycle that cannot be stored ends nobody else's
                    self._trouble.say("loop_stuck", error, name)
                    await set_within(kick, self._settings.away_s)
        finally:
            del self._kicks[name]
            self._wake.set()
            self._triggering.kick()

    async def _turn(self, name: str, kick: asyncio.Event) -> bool:
        """Do what stands there, once; whether the cycle is over."""
        kick.clear()  # before the look: what a person says after it sets it again
        record = await asyncio.to_thread(self._store.cycle, name)
        if record.is_over:
            return True
        command = record.doing
        if command is None:  # a person is asked
            # Looked at again without a kick, too: a decision can be stored and its request end before.
            await set_within(kick, self._settings.look_s)
            return False
        answer = await self._answer(command, kick)
        if answer is None:
            return False
        after = await asyncio.to_thread(
            self._store.step, name, Answered(record.cycle.revision, answer), self._now()
        )
        if after.cycle.revision != record.cycle.revision:
            self._told(after)
        if after.doing == command and not after.is_over:
            await set_within(kick, self._pause_s(command, answer))
        return after.is_over

    async def _answer(self, command: AnyCommand, kick: asyncio.Event) -> Answer | None:
        """None: a person spoke meanwhile. Only what changes nothing is dropped for him; what is being
        done is done, and then finds that the cycle has moved on.
        """
        if not isinstance(command, WATCHES):
            return await self._hands.do(command)
        doing = asyncio.create_task(self._hands.do(command))
        kicked = asyncio.create_task(kick.wait())
        try:
            await asyncio.wait({doing, kicked}, return_when=asyncio.FIRST_COMPLETED)
            return doing.result() if doing.done() else None
        finally:
            doing.cancel()
            kicked.cancel()

    def _pause_s(self, command: AnyCommand, answer: Answer) -> float:
        if isinstance(answer, Away):
            return self._settings.away_s
        return self._settings.count_s if isinstance(command, Count) else self._settings.look_s

    def _told(self, record: CycleRecord) -> None:
        cycle = record.cycle
        self._changes.happened(cycle.id)
        if cycle.ended_at is not None:
            self._metrics.ended.labels(cycle.phase.value).inc()
        log.info("loop_moved", extra={
            "cycle": cycle.id, "phase": cycle.phase.value, "asks": cycle.asks,
            "waits_for": cycle.waits_for[:300], "why": cycle.why[:300],
        })  # fmt: skip
