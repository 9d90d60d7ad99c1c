"""The writer thread over a real database, and over one that comes and goes."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from cloud.store.feedback import Bounds, Feedback, FeedbackTable, Written
from cloud.store.lookup import AnswerLookup
from cloud.store.writer import FeedbackWriter
from shared.errors import Overloaded, Refused, Unavailable
from tests.cloud.samples import feedback

PLENTY = Bounds(rows_max=10_000, bytes_max=10**9)


class FlakyTable(FeedbackTable):
    """The real table, whose database is away for the first `outages` commits."""

    def __init__(self, folder: Path, outages: int = 0, never: frozenset[int] = frozenset()) -> None:
        super().__init__(f"sqlite:///{folder / 'feedback.db'}", PLENTY)
        self.open()
        self.outages, self.never = outages, never
        self.groups: list[int] = []

    def write(self, rows: Sequence[Feedback]) -> Written:
        if self.outages:
            self.outages -= 1
            raise Unavailable("away")
        if any(row.escalation.id.int in self.never for row in rows):
            raise Refused("never")
        self.groups.append(len(rows))
        return super().write(rows)


async def stored(writer: FeedbackWriter, numbers: Sequence[int]) -> list[BaseException | None]:
    futures = [writer.put(feedback(n)) for n in numbers]
    return await asyncio.gather(*futures, return_exceptions=True)


def test_a_future_is_done_once_the_row_is_committed_and_rows_share_commits(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        writer = FeedbackWriter(table, pending_max=100)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(writer.run())
            assert await stored(writer, range(50)) == [None] * 50
            assert len(table.find([feedback(n).key for n in range(50)])) == 50
            writer.drain()

    table = FlakyTable(tmp_path)
    asyncio.run(scenario())
    assert len(table.groups) <= 2
    table.close()


def test_rows_wait_out_an_outage_that_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        failures = 0

        def failed() -> None:
            nonlocal failures
            failures += 1

        writer = FeedbackWriter(table, pending_max=100, on_failure=failed)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(writer.run())
            assert await stored(writer, [1, 2]) == [None, None]
            assert writer.up
            writer.drain()
        assert failures == 2

    table = FlakyTable(tmp_path, outages=2)
    caplog.set_level("INFO")
    asyncio.run(scenario())
    events = [record.getMessage() for record in caplog.records]
    assert (events.count("feedback_store_down"), events.count("feedback_store_up")) == (1, 1)
    table.close()


def test_a_row_that_never_fits_fails_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        writer = FeedbackWriter(table, pending_max=100)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(writer.run())
            good, bad, other = await stored(writer, [1, 2, 3])
            assert (good, other) == (None, None)
            assert isinstance(bad, Refused)
            writer.drain()

    table = FlakyTable(tmp_path, never=frozenset({2}))
    asyncio.run(scenario())
    table.close()


def test_more_than_may_wait_is_overload(tmp_path: Path) -> None:
    async def scenario() -> None:
        writer = FeedbackWriter(table, pending_max=2)
        waiting = [writer.put(feedback(1)), writer.put(feedback(2))]
        with pytest.raises(Overloaded):
            writer.put(feedback(3))
        for future in waiting:
            future.cancel()

    table = FlakyTable(tmp_path)
    asyncio.run(scenario())
    table.close()


def test_draining_during_an_outage_ends_and_says_that_nothing_was_stored(tmp_path: Path) -> None:
    async def scenario() -> None:
        writer = FeedbackWriter(table, pending_max=100)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(writer.run())
            future = writer.put(feedback(1))
            writer.drain()
            with pytest.raises(Unavailable):
                await future
            await running

    table = FlakyTable(tmp_path, outages=10**9)
    asyncio.run(scenario())
    table.close()


def test_a_bug_in_the_thread_ends_run_with_it(tmp_path: Path) -> None:
    class Broken(FlakyTable):
        def write(self, rows: Sequence[Feedback]) -> Written:
            raise ZeroDivisionError(len(rows))

    async def scenario() -> None:
        writer = FeedbackWriter(table, pending_max=100)
        running = asyncio.create_task(writer.run())
        future = writer.put(feedback(1))
        with pytest.raises(ZeroDivisionError):
            await running
        assert not future.done()

    table = Broken(tmp_path)
    asyncio.run(scenario())
    table.close()


def test_a_new_sample_costs_no_query_and_the_rest_share_one(tmp_path: Path) -> None:
    class Counting(FlakyTable):
        queries = 0

        def find(self, keys):  # type: ignore[no-untyped-def]  # as in the parent
            self.queries += 1
            return super().find(keys)

    async def scenario() -> None:
        lookup = AnswerLookup(table)
        assert await lookup.find(feedback(99).key) is None
        assert table.queries == 0
        found = await asyncio.gather(*(lookup.find(feedback(n).key) for n in (1, 2, 1)))
        assert [one.id.int for one in found if one] == [1, 2, 1]
        assert await lookup.find(feedback(2).key) is not None
        assert table.queries == 2
        lookup.close()

    table = Counting(tmp_path)
    table.write([feedback(1), feedback(2)])
    asyncio.run(scenario())
    table.close()


def test_a_lookup_in_a_database_that_is_away_says_so(tmp_path: Path) -> None:
    class Away(FlakyTable):
        def find(self, keys):  # type: ignore[no-untyped-def]  # as in the parent
            raise Unavailable("away")

    async def scenario() -> None:
        lookup = AnswerLookup(table)
        with pytest.raises(Unavailable):
            await lookup.find(feedback(1).key)
        lookup.close()

    table = Away(tmp_path)
    table.write([feedback(1)])
    asyncio.run(scenario())
    table.close()
