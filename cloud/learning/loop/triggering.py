"""Looks at what could begin a cycle of a loop that has none, and has it begun."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from cloud.learning.documents import TriggerKind
from cloud.learning.loop.hands import Hands
from cloud.learning.loop.record import CycleRecord
from cloud.learning.loop.settings import Loops
from cloud.learning.loop.triggers import Facts, Trigger, next_at, triggered
from cloud.learning.loop.trouble import Trouble
from cloud.learning.loop.waiting import set_within
from cloud.learning.store.loops import KeptLoop, LoopStore
from shared.errors import HybridgeError

log = logging.getLogger(__name__)
Begin = Callable[[str, TriggerKind, str], Awaitable[CycleRecord]]
"""A cycle of that model, by that trigger, which says so in words. Raises `Unknown`, `Conflict`."""


class Triggering:
    """`run` until cancelled: peers that are away keep each look for their patience."""

    def __init__(
        self, store: LoopStore, hands: Hands, settings: Loops, begin: Begin,
        now: Callable[[], float],
    ) -> None:  # fmt: skip
        """`now` gives Unix seconds."""
        self._store, self._hands, self._settings, self._now = store, hands, settings, now
        self._begin, self._trouble = begin, Trouble(log, now)
        self._wake = asyncio.Event()

    def kick(self) -> None:
        """Loops changed, or a cycle ended."""
        self._wake.set()

    async def run(self) -> None:
        while True:
            self._wake.clear()
            try:
                await self._look()
            except HybridgeError as error:
                self._trouble.say("loop_store_away", error)
            await set_within(self._wake, self._settings.trigger_s)

    async def _look(self) -> None:
        for kept in await asyncio.to_thread(self._store.loops):
            model = kept.settings.model
            try:  # what is wrong with one loop keeps no other from its triggers
                if await asyncio.to_thread(self._store.running_of, model) is not None:
                    continue
                found = await self._triggered(kept)
                if found is not None:
                    await self._begin(model, found.kind, found.words)
            except HybridgeError as error:
                self._trouble.say("loop_blind", error, model)

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
