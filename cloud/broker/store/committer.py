"""What takes changes to the disk while the event loop goes on: one thread, one batch at a time.

Self-clocked: while one batch is written the next one gathers, so a slow disk gets fewer and larger
ones. The first change after a quiet time waits `commit_delay_s`; what is delivered and
acknowledged within it takes no space on disk at all.

A disk that fails takes nothing away: the batch is kept and tried again, and nothing that waits for
it is acknowledged meanwhile.
"""

import asyncio
import contextlib
import logging
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

from cloud.broker.session.records import Batch
from cloud.broker.store.statements import rows_in
from shared.errors import Unavailable

log = logging.getLogger(__name__)

COMMIT_DELAY_S: Final = 0.003
SETTLE_S: Final = 0.01
"""Longer, where all that is pending was just sent to clients that are connected: a write then is
for nothing, and competes with the messages that come next."""
RETRY_S_MIN: Final = 0.1
RETRY_S_MAX: Final = 5.0
DRAIN_S_MAX: Final = 5.0
SWITCH_INTERVAL_S: Final = 1e-4
"""For which the thread asks for the GIL before it is given it, while `run` runs. With Python's
5 ms, an event loop that gives it up for a moment at each `send` never lets a waiting thread have
it: 2,000 rows then took up to 5 s to write (17 s with one row a step), with this 0.25 s."""


class Changes(Protocol):
    """What waits to be written; `session.changes` has it."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to hand over."""

    @property
    def may_settle(self) -> bool:
        """Whether to wait a little longer: what is pending is about to be owed no more."""

    def hand(self, now: float, wall: float, /) -> Batch:
        """Give everything pending; `now` on the loop's clock is `wall` in Unix seconds."""

    def committed(self, batch_number: int, /) -> None:
        """Learn that a batch is on disk."""


class Store(Protocol):
    """Where batches go; `Database` is one."""

    def write(self, batch: Batch, /) -> None:
        """Write all of it or raise `Unavailable`; called on the committer's thread."""


class Committer:
    """Moves changes to the store. Its counters are for metrics."""

    def __init__(
        self,
        store: Store,
        changes: Changes,
        *,
        wall: Callable[[], float] = time.time,
        commit_delay_s: float = COMMIT_DELAY_S,
        settle_s: float = SETTLE_S,
        retry_s_min: float = RETRY_S_MIN,
        retry_s_max: float = RETRY_S_MAX,
        drain_s_max: float = DRAIN_S_MAX,
    ) -> None:
        """Nothing is written until `run` runs.

        `retry_s_min`, `retry_s_max`: from a failed write to the next try, doubling. `drain_s_max`:
        how long `drain` tries a disk that fails.
        """
        self._store, self._changes, self._wall = store, changes, wall
        self._commit_delay_s, self._drain_s_max = commit_delay_s, drain_s_max
        self._settle_s = settle_s
        self._retry_s_min, self._retry_s_max = retry_s_min, retry_s_max
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="broker_store")
        self._pending, self._closing, self._ended = (
            asyncio.Event(),
            asyncio.Event(),
            asyncio.Event(),
        )
        self._due_at = 0.0
        self._given_up_at = 0.0
        self.is_failing = False
        """The last write failed: acknowledgements wait."""
        self.commits = 0
        self.rows = 0
        """Rows changed by all commits."""
        self.last_commit_ms: float | None = None
        """How long the last commit took, from the event loop and back; None before the first."""
        self.failures = 0
        """Writes that failed; each is tried again."""

    def wake(self) -> None:
        """Say that something is pending. On the event loop, as often as you like."""
        if not self._pending.is_set():
            self._pending.set()
            self._due_at = asyncio.get_running_loop().time() + self._commit_delay_s

    async def run(self) -> None:
        """Write until `drain`, then what is left. Errors other than `Unavailable` end it."""
        loop = asyncio.get_running_loop()
        interval_s = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        try:
            while await self._has_more():
                batch = self._changes.hand(loop.time(), self._wall())
                if rows_in(batch) and not await self._write(batch):
                    break
                self._changes.committed(batch.number)
        finally:
            self._thread.shutdown()  # cancelled: the batch in hand is written to its end
            sys.setswitchinterval(interval_s)
            self._ended.set()

    async def drain(self) -> None:
        """Have `run` write what is pending and end; returns when it has.

        While the disk fails it is tried for `drain_s_max`; then the loss is logged and `run` ends.
        """
        self._given_up_at = asyncio.get_running_loop().time() + self._drain_s_max
        self._closing.set()
        self._pending.set()
        await self._ended.wait()

    async def _has_more(self) -> bool:
        """Wait for changes that are due; false: drained."""
        loop = asyncio.get_running_loop()
        while True:
            if not self._closing.is_set():
                await self._pending.wait()
                await self._closing_within(self._due_at - loop.time())
                if self._changes.may_settle:  # most likely acknowledged before it is written
                    await self._closing_within(self._settle_s)
            self._pending.clear()
            if not self._changes.is_empty:
                return True
            if self._closing.is_set():
                return False

    async def _write(self, batch: Batch) -> bool:
        """Write a batch however often it takes; false: given up, when draining."""
        loop = asyncio.get_running_loop()
        retry_s = self._retry_s_min
        while True:
            started = loop.time()
            try:
                await loop.run_in_executor(self._thread, self._store.write, batch)
            except Unavailable as error:
                self._failed(error)
            else:
                self._done(rows_in(batch), loop.time() - started)
                return True
            if not self._closing.is_set():
                await self._closing_within(retry_s)
                retry_s = min(2 * retry_s, self._retry_s_max)
            elif loop.time() < self._given_up_at:
                await asyncio.sleep(min(self._retry_s_min, self._given_up_at - loop.time()))
            else:
                self._lost(batch)
                return False

    async def _closing_within(self, wait_s: float) -> None:
        """Wait so long, or until `drain`."""
        if wait_s > 0 and not self._closing.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._closing.wait()

    def _failed(self, error: Unavailable) -> None:
        self.failures += 1
        if not self.is_failing:
            self.is_failing = True
            log.error("store_failing", extra={"why": str(error)})

    def _done(self, rows: int, took_s: float) -> None:
        self.commits += 1
        self.rows += rows
        self.last_commit_ms = took_s * 1e3
        if self.is_failing:
            self.is_failing = False
            log.warning("store_works_again", extra={"failures": self.failures})

    def _lost(self, batch: Batch) -> None:
        loop = asyncio.get_running_loop()
        rows = rows_in(batch)
        if not self._changes.is_empty:
            rows += rows_in(self._changes.hand(loop.time(), self._wall()))
        log.error("store_rows_lost", extra={"rows": rows, "after_s": self._drain_s_max})
