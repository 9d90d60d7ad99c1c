"""Takes the state through the machine: step, persist, act. One event at a time.

The state is on disk before what follows from it is done.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import asdict
from typing import assert_never

from edge.inference.slot import Slot
from edge.updates import state_file
from edge.updates.events import (
    Activate,
    Command,
    Event,
    Fetch,
    Interrupted,
    Labour,
    Lasted,
    NotRestored,
    Probe,
    Proven,
    Prune,
    Report,
    Restore,
    Stage,
    SwapFailed,
    Tried,
    Try,
    Verify,
)
from edge.updates.folders import Folders
from edge.updates.machine import step
from edge.updates.release import Release
from edge.updates.reports import Reporter
from edge.updates.state import State
from edge.updates.work import Serving, Work
from shared.backoff import Jitter, pause_s
from shared.disk import NoRoom
from shared.errors import HybridgeError, Unavailable

log = logging.getLogger(__name__)


class Driver:
    def __init__(
        self,
        state: State,
        serving: Serving,
        folders: Folders,
        work: Work,
        reporter: Reporter,
        wake: asyncio.Event,
        *,
        proven_s: float,
        backoff_s: tuple[float, float],
        rng: Jitter,
        changed: Callable[[], None],
    ) -> None:
        """`wake` is set when it is time to look at the registry, and go on with a cut download.

        `proven_s`: seconds that a version must run; `backoff_s`: shortest and longest bound;
        `changed` is called when the state or what answers has changed.
        """
        self.state = state
        self.answering = state.active
        """What the agent's slot holds."""
        self._serving, self._folders, self._work = serving, folders, work
        self._reporter, self._wake, self._rng = reporter, wake, rng
        self._proven_s, self._backoff_s = proven_s, backoff_s
        self._changed = changed
        self._lock = asyncio.Lock()
        self._running: asyncio.Task[None] | None = None  # the work for the candidate
        self._doing: Labour | None = None
        self._proving: asyncio.TimerHandle | None = None
        self._resuming: asyncio.TimerHandle | None = None
        self._lasting: asyncio.TimerHandle | None = None
        self._cuts = 0  # of downloads, in a row
        self.trouble = ""
        """Why the disk did not take the last state, in words."""

    @property
    def idle(self) -> bool:
        """Nobody works for a candidate."""
        return self._running is None or self._running.done()

    def begin(self, tasks: asyncio.TaskGroup) -> None:
        """Where its work may run from now on."""
        self._tasks = tasks
        self._prove()

    async def end(self) -> None:
        """End the work; what it has done is on disk."""
        async with self._lock:  # nobody is between disk and memory now
            await self._end_work()
            self._cancel_timers()

    async def try_to(self, event: Event, slot: Slot | None = None) -> None:
        """`advance`, where a disk that does not take it must not end anything."""
        try:
            await self.advance(event, slot)
        except Unavailable as error:
            self.trouble = str(error)
            log.warning("update_state_unwritable", extra={"why": str(error)[:300]})

    async def advance(self, event: Event, slot: Slot | None = None) -> None:
        """Step, persist, act; `slot` is what an `Activate` swaps in.

        Raises `Unavailable` when the disk does not take the state, which then stays as it was.
        """
        before = (self.state, self.answering)
        try:
            async with self._lock:
                events = deque([event])
                while events:
                    state, commands = step(self.state, events.popleft())
                    if state != self.state:
                        await self._persist(state)
                    for command in commands:
                        if (follows := await self._execute(command, slot)) is not None:
                            events.append(follows)
        finally:
            if (self.state, self.answering) != before:
                self._changed()

    async def _persist(self, state: State) -> None:
        try:
            await asyncio.to_thread(state_file.save, self._folders.root, state)
        except NoRoom:  # what is on its way has to make room for the news that it is given up
            await asyncio.to_thread(self._folders.make_room)
            await asyncio.to_thread(state_file.save, self._folders.root, state)
        before, self.state, self.trouble = self.state, state, ""
        if before.target != (target := state.target):
            log.info("update_target", extra={} if target is None else {"target": asdict(target)})
        if (before.phase, before.generation) != (state.phase, state.generation):
            about = state.candidate or (before.candidate if state.phase != "active" else None)
            log.info(
                "update_phase",
                extra={
                    "phase": state.phase,
                    "version": str(about or state.active),
                    "active": state.active.version,
                    "why": state.why,
                },
            )

    async def _execute(self, command: Command, slot: Slot | None) -> Event | None:
        match command:
            case Stage() | Try() if self._runs_in_shadow(command):
                self._work.turn(live=isinstance(command, Try))
                self._doing = command
            case Fetch() | Verify() | Probe() | Stage() | Try() | Restore():
                await self._end_work()
                self._doing = command
                self._running = self._tasks.create_task(self._do(command), name="update")
                self._last(command)
            case Activate(generation, release):
                return self._swap(generation, release, slot)
            case Prune():
                await self._end_work()
                await asyncio.to_thread(self._folders.prune, self.state)
            case Report():
                self._reporter.note(self.report())
            case _:
                assert_never(command)
        return None

    def _runs_in_shadow(self, command: Stage | Try) -> bool:
        """This very candidate does already: what it has shown is kept."""
        doing = self._doing
        return (
            not self.idle
            and isinstance(doing, Stage | Try)
            and (doing.generation, doing.release) == (command.generation, command.release)
        )

    async def _end_work(self) -> None:
        """End what works for an older generation, unless that is who asks."""
        running = self._running
        if running is None or running.done() or running is asyncio.current_task():
            return
        running.cancel()
        await asyncio.wait({running})

    async def _do(self, command: Labour) -> None:
        event, slot = await self._work.do(command, self.state)
        try:
            self._cuts = self._cuts + 1 if isinstance(event, Interrupted) else 0
            await self.try_to(event, slot)
        finally:
            if slot is not None and self._serving.slot is not slot:
                await slot.retire()
        if isinstance(event, NotRestored) or (isinstance(event, Tried) and self.state.busy):
            self._wake.set()  # fetched anew; or staged again at the very end of its trial
        if self._cuts:
            pause = pause_s(self._cuts, *self._backoff_s, self._rng)
            self._resuming = asyncio.get_running_loop().call_later(pause, self._wake.set)

    def _swap(self, generation: int, release: Release, slot: Slot | None) -> Event | None:
        assert slot is not None, "nothing becomes active that is not open"
        try:
            before = self._serving.swap(slot)
        except HybridgeError as error:
            return SwapFailed(generation, f"the agent does not take it: {error}", self.answering)
        self.answering = release
        self._tasks.create_task(before.retire(), name="retire")
        self._prove()
        return None

    def _prove(self) -> None:
        """Once it has run for a while, the active version is no suspect any more."""
        self._cancel_timers()
        if not self.state.proven:
            self._proving = asyncio.get_running_loop().call_later(
                self._proven_s,
                lambda: self._tasks.create_task(self.try_to(Proven()), name="proven"),
            )

    def _last(self, command: Labour) -> None:
        """A candidate may be staged for weeks: power cuts in that time are not its fault."""
        if self._lasting is not None:
            self._lasting.cancel()
        if isinstance(command, Stage):
            lasted = Lasted(command.generation)
            self._lasting = asyncio.get_running_loop().call_later(
                self._proven_s,
                lambda: self._tasks.create_task(self.try_to(lasted), name="lasted"),
            )

    def _cancel_timers(self) -> None:
        for timer in (self._proving, self._resuming, self._lasting):
            if timer is not None:
                timer.cancel()

    def report(self) -> dict[str, str]:
        return {
            "model": self.state.model,
            "version": self.answering.version,
            "variant": self._serving.slot.key,
            "state": self.state.phase,
        }
