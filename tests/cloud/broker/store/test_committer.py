"""The committer over a fake of what collects changes, and stores that do as they are told."""

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest

from cloud.broker.session.records import Batch
from cloud.broker.store.committer import SWITCH_INTERVAL_S, Committer
from cloud.broker.store.database import Database
from shared.errors import Malformed, Unavailable
from tests.cloud.broker.store.batches import queued, session


class FakeChanges:
    """Sessions that are pending, by name."""

    def __init__(self) -> None:
        self.pending: list[str] = []
        self.settling = False
        self.handed: list[int] = []
        self.on_disk: list[int] = []
        self.changed = asyncio.Event()
        self.asked = asyncio.Event()
        self.clocks: list[tuple[float, float]] = []

    @property
    def may_settle(self) -> bool:
        return self.settling

    @property
    def is_empty(self) -> bool:
        self.asked.set()
        return not self.pending

    def hand(self, now: float, wall: float) -> Batch:
        self.clocks.append((now, wall))
        taken, self.pending = self.pending, []
        self.handed.append(len(taken))
        return Batch(len(self.handed), sessions=[session(one) for one in taken])

    def committed(self, batch_number: int) -> None:
        self.on_disk.append(batch_number)
        self.changed.set()

    async def until_on_disk(self, batch_number: int) -> None:
        while batch_number not in self.on_disk:
            self.changed.clear()
            await self.changed.wait()


class HeldStore:
    """Takes a batch when the test lets it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.entered, self.let = asyncio.Event(), threading.Event()
        self.written: list[Batch] = []

    def write(self, batch: Batch) -> None:
        self._loop.call_soon_threadsafe(self.entered.set)
        self.let.wait()
        self.written.append(batch)


class FailingStore:
    """Fails so many times, then works."""

    def __init__(self, failures: float, error: Exception | None = None) -> None:
        self.failures = failures
        self.error = error or Unavailable("disk full; free space")
        self.tried: list[Batch] = []

    def write(self, batch: Batch) -> None:
        self.tried.append(batch)
        if self.failures > 0:
            self.failures -= 1
            raise self.error


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await scenario()

    asyncio.run(bounded())


async def turns(count: int = 10) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def until_failing(committer: Committer) -> None:
    while not committer.is_failing:  # noqa: ASYNC110  the failure is a few turns away
        await asyncio.sleep(0)


def events(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.message for r in caplog.records if r.name.startswith("cloud.broker.store")]


def test_what_is_pending_reaches_the_disk_and_is_then_said_to_be_there(tmp_path: Path) -> None:
    async def scenario() -> None:
        with closing(Database(tmp_path / "broker.db", "full")) as database:
            changes = FakeChanges()
            committer = Committer(database, changes, wall=lambda: 1234.5)
            assert committer.last_commit_ms is None
            async with asyncio.TaskGroup() as parts:
                parts.create_task(committer.run())
                changes.pending = ["a", "b"]
                committer.wake()
                await changes.until_on_disk(1)
                changes.pending = ["c"]
                committer.wake()
                committer.wake()
                await changes.until_on_disk(2)
                await committer.drain()
            assert changes.handed == [2, 1]
            assert {row.client_id for row in database.load().sessions} == {"a", "b", "c"}
            assert (committer.commits, committer.rows, committer.failures) == (2, 3, 0)
            assert committer.last_commit_ms is not None
            assert 0 < committer.last_commit_ms < 60_000
            (now, wall), _ = changes.clocks
            assert wall == 1234.5
            assert 0 <= asyncio.get_running_loop().time() - now < 60

    run(scenario)


def test_what_is_settled_within_the_delay_never_touches_the_disk() -> None:
    async def scenario() -> None:
        changes, store = FakeChanges(), FailingStore(0)
        committer = Committer(store, changes, commit_delay_s=0.05)
        async with asyncio.TaskGroup() as parts:
            parts.create_task(committer.run())
            changes.pending = ["a"]
            committer.wake()
            await turns()
            assert not store.tried
            assert not changes.asked.is_set()  # it waits
            changes.pending = []
            await changes.asked.wait()
            await turns()
            assert not store.tried
            changes.pending = ["b"]
            committer.wake()
            await changes.until_on_disk(1)
            await committer.drain()
        assert changes.handed == [1]

    run(scenario)


def test_the_next_batch_gathers_while_one_is_written() -> None:
    async def scenario() -> None:
        changes, store = FakeChanges(), HeldStore(asyncio.get_running_loop())
        committer = Committer(store, changes, commit_delay_s=0)
        async with asyncio.TaskGroup() as parts:
            parts.create_task(committer.run())
            changes.pending = ["a"]
            committer.wake()
            await store.entered.wait()
            for name in "bcd":
                changes.pending.append(name)
                committer.wake()
                await turns()
            assert changes.on_disk == []
            store.let.set()
            await changes.until_on_disk(2)
            await committer.drain()
        assert changes.handed == [1, 3]

    run(scenario)


def test_the_delay_counts_from_the_first_of_many_changes() -> None:
    async def scenario() -> None:
        committer = Committer(FailingStore(0), FakeChanges(), commit_delay_s=3600)
        committer.wake()
        due_at = committer._due_at
        await turns()
        committer.wake()
        assert committer._due_at == due_at

    run(scenario)


def test_drain_writes_at_once_what_waits_for_the_delay() -> None:
    async def scenario() -> None:
        changes, store = FakeChanges(), FailingStore(0)
        committer = Committer(store, changes, commit_delay_s=3600)
        async with asyncio.TaskGroup() as parts:
            parts.create_task(committer.run())
            changes.pending = ["a"]
            committer.wake()
            await turns()
            assert not store.tried
            await committer.drain()
            assert changes.on_disk == [1]

    run(scenario)


@pytest.mark.parametrize("settling", [True, False])
def test_what_may_settle_is_given_longer(*, settling: bool) -> None:
    async def scenario() -> None:
        changes, store = FakeChanges(), FailingStore(0)
        changes.settling = settling
        committer = Committer(store, changes, commit_delay_s=0, settle_s=3600)
        async with asyncio.TaskGroup() as parts:
            parts.create_task(committer.run())
            changes.pending = ["a"]
            committer.wake()
            if settling:
                await turns()
                assert not store.tried
            else:
                await changes.until_on_disk(1)
            await committer.drain()
            assert changes.on_disk == [1]

    run(scenario)


def test_drain_before_run_writes_and_ends() -> None:
    async def scenario() -> None:
        changes, store = FakeChanges(), FailingStore(0)
        committer = Committer(store, changes)
        changes.pending = ["a"]
        async with asyncio.TaskGroup() as parts:
            parts.create_task(committer.drain())
            parts.create_task(committer.run())
        assert changes.on_disk == [1]

    run(scenario)


def test_a_failed_batch_is_kept_and_written_later(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        changes, store = FakeChanges(), FailingStore(12)
        committer = Committer(
            store, changes, commit_delay_s=0, retry_s_min=0.001, retry_s_max=0.002
        )
        started = time.monotonic()
        async with asyncio.TaskGroup() as parts:
            parts.create_task(committer.run())
            changes.pending = ["a"]
            committer.wake()
            await until_failing(committer)
            assert changes.on_disk == []
            changes.pending = ["b"]
            committer.wake()
            await changes.until_on_disk(2)
            assert not committer.is_failing
            await committer.drain()
        assert 0.001 + 11 * 0.002 <= time.monotonic() - started < 3  # not 4: the delay is bounded
        assert len(store.tried) == 14
        assert all(batch is store.tried[0] for batch in store.tried[:13])
        assert changes.on_disk == [1, 2]
        assert (committer.commits, committer.failures) == (2, 12)

    caplog.set_level(logging.INFO)
    run(scenario)
    assert events(caplog) == ["store_failing", "store_works_again"]


def test_drain_tries_a_failing_disk_again_at_once() -> None:
    async def scenario() -> None:
        changes, store = FakeChanges(), FailingStore(1)
        committer = Committer(store, changes, commit_delay_s=0, retry_s_min=3600, retry_s_max=3600)
        async with asyncio.TaskGroup() as parts:
            parts.create_task(committer.run())
            changes.pending = ["a"]
            committer.wake()
            await until_failing(committer)
            await committer.drain()
        assert changes.on_disk == [1]

    run(scenario)


def test_drain_waits_for_a_disk_that_works_again_in_time() -> None:
    async def scenario() -> None:
        changes, store = FakeChanges(), FailingStore(5)
        committer = Committer(store, changes, commit_delay_s=0, retry_s_min=0.001)
        changes.pending = ["a"]
        async with asyncio.TaskGroup() as parts:
            parts.create_task(committer.drain())
            parts.create_task(committer.run())
        assert changes.on_disk == [1]

    run(scenario)


def test_drain_gives_up_a_disk_that_goes_on_failing_and_says_what_was_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        changes, store = FakeChanges(), FailingStore(float("inf"))
        committer = Committer(store, changes, commit_delay_s=0, retry_s_min=0.001, drain_s_max=0.03)
        async with asyncio.TaskGroup() as parts:
            parts.create_task(committer.run())
            changes.pending = ["a", "b"]
            committer.wake()
            await until_failing(committer)
            changes.pending = ["c"]
            committer.wake()
            await committer.drain()
        assert changes.on_disk == []
        assert len(store.tried) > 1

    run(scenario)
    assert events(caplog) == ["store_failing", "store_rows_lost"]
    assert caplog.records[-1].rows == 3  # type: ignore[attr-defined]


def test_a_damaged_file_ends_the_process() -> None:
    async def scenario() -> None:
        changes, store = FakeChanges(), FailingStore(1, Malformed("broker.db: damaged"))
        committer = Committer(store, changes, commit_delay_s=0)
        changes.pending = ["a"]
        committer.wake()
        with pytest.raises(Malformed):
            await committer.run()
        await committer.drain()
        assert changes.on_disk == []

    run(scenario)


def test_a_cancelled_run_ends_the_batch_in_hand(tmp_path: Path) -> None:
    class Told:
        """The real store, saying when it is called."""

        def __init__(self, database: Database, entered: threading.Event) -> None:
            self._database, self._entered = database, entered

        def write(self, batch: Batch) -> None:
            self._entered.set()
            self._database.write(batch)
            self._database.write(queued(500, 8_000))  # still at it when the task is cancelled

    async def scenario() -> None:
        with closing(Database(tmp_path / "broker.db", "full")) as database:
            changes, entered = FakeChanges(), threading.Event()
            committer = Committer(Told(database, entered), changes, commit_delay_s=0)
            running = asyncio.create_task(committer.run())
            changes.pending = ["a"]
            committer.wake()
            await asyncio.get_running_loop().run_in_executor(None, entered.wait)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            loaded = database.load()
            assert len(loaded.messages) == 500
            assert {row.client_id for row in loaded.sessions} == {"a", "c"}

    run(scenario)


def test_threads_change_places_quickly_while_it_runs_and_as_before_afterwards() -> None:
    async def scenario() -> None:
        sys.setswitchinterval(0.004)
        committer = Committer(FailingStore(0), FakeChanges())
        running = asyncio.create_task(committer.run())
        await turns()
        assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL_S)
        await committer.drain()
        await running
        assert sys.getswitchinterval() == pytest.approx(0.004)

    before = sys.getswitchinterval()
    try:
        run(scenario)
    finally:
        sys.setswitchinterval(before)
