"""The thread that commits in groups, so that one fsync serves many samples.

Groups are queued from the event loop and reach the disk in order. One that somebody waits for is
committed at once, others after at most `GATHER_S`; while one commit runs, the next one fills.

A full disk takes nothing away: what was about to be recorded is counted as lost (`disk_full`),
moves out of the outbox wait in memory, and both are written as soon as there is room. Cursors wait
with them, so that after a crash in between the source plays those samples again.
"""

import asyncio
import logging
import sqlite3
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edge.answers import Cursor
from edge.journal.agent_clock import Stamp
from edge.journal.database import NO_ROOM
from edge.journal.rows import Pending
from edge.journal.writes import Accepted, Bounds, Lost, Opened, Write, apply

log = logging.getLogger(__name__)

GATHER_S = 0.020
_RETRY_S = 1.0  # between two attempts to write what a full disk did not take


@dataclass(frozen=True, slots=True)
class Group:
    """Writes that reach the disk together or not at all."""

    writes: Sequence[Write]
    done: asyncio.Future[None] | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    """What the event loop learns of one commit."""

    groups: list[Group]
    totals: dict[str, int]  # what was added to the counts on disk
    dropped: list[Pending]  # what a full disk did not take
    owed: dict[str, int]  # what it still has to add to the counts on disk, once there is room


class Writer:
    def __init__(
        self,
        db: sqlite3.Connection,
        bounds: Bounds,
        stamp: Callable[[], Stamp],
        committed: Callable[[Commit], None],
    ) -> None:
        """`committed` is called on the event loop, `stamp` on the thread."""
        self._db, self._bounds, self._stamp, self._committed = db, bounds, stamp, committed
        self._queue: deque[Group] = deque()
        self._wake, self._hurry = threading.Event(), threading.Event()
        self._closing = False
        self._held: list[Write] = []  # the thread's: what waits for room

    def submit(self, group: Group) -> None:
        self._queue.append(group)
        if group.done is not None:
            self._hurry.set()
        if not self._wake.is_set():
            self._wake.set()

    def drain(self) -> None:
        self._closing = True
        self._hurry.set()
        self._wake.set()

    async def run(self) -> None:
        """Write until `drain`, then until nothing waits. Any error but a full disk ends it."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()
        thread = threading.Thread(target=self._work, args=(loop, ended), name="journal")
        thread.start()
        try:
            await asyncio.shield(ended)
        finally:
            self.drain()
            thread.join()

    def _work(self, loop: asyncio.AbstractEventLoop, ended: asyncio.Future[None]) -> None:
        try:
            while self._queue or self._held or not self._closing:
                self._wake.wait(_RETRY_S if self._held else None)
                if not self._closing:
                    self._hurry.wait(GATHER_S)
                self._wake.clear()
                self._hurry.clear()
                last = self._closing  # before the queue is emptied: nothing comes after `drain`
                groups = [self._queue.popleft() for _ in range(len(self._queue))]
                if groups or self._held:
                    loop.call_soon_threadsafe(self._committed, self._commit(groups))
                if last:
                    break
            if self._held:
                log.error("journal_closed_without_room", extra={"writes": len(self._held)})
        except BaseException as error:  # noqa: BLE001  whatever it is, the process must learn of it
            loop.call_soon_threadsafe(ended.set_exception, error)
        else:
            loop.call_soon_threadsafe(ended.set_result, None)

    def _commit(self, groups: list[Group]) -> Commit:
        writes = [write for group in groups for write in group.writes]
        try:
            totals = apply(self._db, [*self._held, *writes], self._stamp(), self._bounds)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in NO_ROOM:
                raise
            dropped = self._hold(writes, error)
            return Commit(groups, {}, dropped, self._owed())
        if self._held:
            self._held = []
            log.warning("disk_has_room_again")
        return Commit(groups, totals, [], {})

    def _owed(self) -> dict[str, int]:
        lost = {f"lost:{w.reason}": w.count for w in self._held if isinstance(w, Lost)}
        return {**lost, "recorded": sum(lost.values())}

    def _hold(self, writes: list[Write], error: sqlite3.OperationalError) -> list[Pending]:
        if not self._held:
            log.error("disk_full", extra={"why": str(error), "do": "free space on state_dir"})
        lost, cursors, moves = Counter[str](), dict[str, Cursor](), list[Write]()
        dropped = list[Pending]()
        for write in [*self._held, *writes]:
            match write:
                case Lost(reason, count):
                    lost[reason] += count
                case Accepted():
                    lost["disk_full"] += 1
                case Opened(pending):
                    lost["disk_full"] += 1
                    dropped.append(pending)
                case Cursor(source):
                    cursors[source] = write
                case _:
                    moves.append(write)
        counts = [Lost(reason, count) for reason, count in sorted(lost.items())]
        self._held = [*moves, *counts, *cursors.values()]
        return dropped
