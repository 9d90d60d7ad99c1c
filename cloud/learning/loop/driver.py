"""Drives cycles: what stands in a cycle is done, and what became of it is stored.

Kill it at any point: what was stored is done again, and finds what it made before. One task for each
cycle that runs, so as many as there are loops.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import Final

from cloud.learning.documents import TriggerKind
from cloud.learning.loop.changes import Changes
from cloud.learning.loop.commands import WATCHES, AnyCommand, Count
from cloud.learning.loop.events import Answer, Answered, Away
from cloud.learning.loop.hands import Hands
from cloud.learning.loop.record import CycleRecord
from cloud.learning.loop.settings import Loops
from cloud.learning.loop.triggers import Facts, Trigger, next_at, triggered
from cloud.learning.metrics import LearningMetrics
from cloud.learning.store.loops import KeptLoop, LoopStore
from shared.errors import HybridgeError, Refused, Unavailable
from shared.logs import OncePer

log = logging.getLogger(__name__)
_LOG_PERIOD_S: Final = 60.0


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
        self._kicks: dict[str, asyncio.Event] = {}
        self._wake, self._drained = asyncio.Event(), False
        self._said = OncePer(_LOG_PERIOD_S)

    def kick(self, cycle: str | None = None) -> None:
        """A person changed the cycle, or (None) the loops."""
        if cycle is not None and cycle in self._kicks:
            self._kicks[cycle].set()
        self._wake.set()

    def drain(self) -> None:
        self._drained = True
        self._wake.set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as cycles:
            running: dict[str, asyncio.Task[None]] = {}
            while not self._drained:
                self._wake.clear()
                try:
                    for record in await asyncio.to_thread(self._store.running):
                        name = record.cycle.id
                        if name not in running:
                            running[name] = cycles.create_task(self._drive(name), name=name)
                    await self._trigger()
                except HybridgeError as error:
                    self._say("loop_store_away", error)
                for name in [name for name, task in running.items() if task.done()]:
                    del running[name]
                self._metrics.cycles.set(len(running))
                if not self._wake.is_set():
                    await self._pause(self._wake, self._settings.trigger_s)
            for task in running.values():
                task.cancel()

    async def _trigger(self) -> None:
        """Begin what its triggers say, and look again at once where something began."""
        for kept in await asyncio.to_thread(self._store.loops):
            model = kept.settings.model
            try:  # what is wrong with one loop keeps no other from its triggers
                if await asyncio.to_thread(self._store.running_of, model) is not None:
                    continue
                found = await self._triggered(kept)
                if found is not None:
                    await self.begin(model, found.kind, found.words)
            except HybridgeError as error:
                self._say(f"loop_blind {model}", error)

    async def begin(self, model: str, trigger: TriggerKind, words: str) -> CycleRecord:
        """Raises `Unknown`, `Conflict` while one runs."""
        record = await asyncio.to_thread(self._store.begin, model, trigger, words, self._now())
        self._told(record)
        self._wake.set()
        return record

    async def _triggered(self, kept: KeptLoop) -> Trigger | None:
        """Asks only for what the loop's triggers look at. Raises `Conflict` where no cycle of the loop
        could find a sample.
        """
        settings, triggers, now = kept.settings, kept.settings.triggers, self._now()
        last_record = await asyncio.to_thread(self._store.last, settings.model)
        last = None if last_record is None else last_record.cycle
        earliest = next_at(settings, last)
        if not settings.enabled or (earliest is not None and now < earliest):
            return None
        await asyncio.to_thread(self._store.check_times, settings)
        model, samples_new, accuracy = settings.model, 0, None
        if triggers.samples is not None:
            since = None if last is None else last.begun_at
            samples_new = await self._hands.samples.new_since(model, since)
        alarms = await self._hands.rollouts.alarms(model) if triggers.drift else ()
        if triggers.accuracy_below is not None:
            current = await self._hands.versions.current(model)
            if current is not None:
                accuracy = await self._hands.rollouts.accuracy(model, current, settings.group)
        facts = Facts(samples_new, alarms, accuracy)
        return triggered(settings, facts, last, kept.made_at, now)

    async def _drive(self, name: str) -> None:
        kick = self._kicks[name] = asyncio.Event()
        try:
            while True:
                try:
                    if await self._turn(name, kick):
                        return
                except Unavailable as error:  # the learning database; nothing was changed
                    self._say("loop_store_away", error)
                    await self._pause(kick, self._settings.away_s)
                except Refused as error:  # one cycle that cannot be stored ends nobody else's
                    self._say(f"loop_stuck {name}", error)
                    await self._pause(kick, self._settings.away_s)
        finally:
            del self._kicks[name]
            self._wake.set()

    async def _turn(self, name: str, kick: asyncio.Event) -> bool:
        """Do what stands there, once; whether the cycle is over."""
        kick.clear()  # before the look: what a person says after it sets it again
        record = await asyncio.to_thread(self._store.cycle, name)
        if record.is_over:
            return True
        command = record.doing
        if command is None:  # a person is asked
            # Looked at again without a kick, too: a decision can be stored and its request end before.
            await self._pause(kick, self._settings.look_s)
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
            await self._pause(kick, self._pause_s(command, answer))
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

    def _say(self, what: str, error: HybridgeError) -> None:
        if self._said.admits(what, self._now()) is not None:
            log.warning(what.partition(" ")[0], extra={"what": what, "why": str(error)[:300]})

    async def _pause(self, event: asyncio.Event, within_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await event.wait()
