"""Many changes, one commit; each stands or fails alone."""

import asyncio
from pathlib import Path

import pytest

from cloud.jobs.admission import admit
from cloud.jobs.commits import Commits
from cloud.jobs.database import JobDatabase, Transaction
from cloud.jobs.record import Admitted
from shared.errors import Overloaded, Unavailable
from tests.cloud.jobs.sample import RULES, job, opened, seen, url_in


class Counted(JobDatabase):
    """Notes the size of each group."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.groups: list[int] = []

    def write(self, changes):
        self.groups.append(len(changes))
        return super().write(changes)


def admission(n: int):
    return lambda t: admit(t, job(n), RULES, 0.0)


def test_what_comes_while_one_group_is_written_is_the_next(tmp_path: Path) -> None:
    database = Counted(url_in(tmp_path))
    database.open()

    async def scenario() -> list[Admitted]:
        commits = Commits(database, 1000)
        first = [asyncio.ensure_future(commits.change(admission(n))) for n in range(1, 101)]
        await asyncio.sleep(0)  # they are pending
        await asyncio.sleep(0)  # and their group is on its way
        more = [asyncio.ensure_future(commits.change(admission(n))) for n in range(101, 201)]
        done = await asyncio.gather(*first, *more)
        commits.close()
        return list(done)

    assert all(admitted.fresh for admitted in asyncio.run(scenario()))
    assert database.groups == [100, 100]
    database.close()


def test_a_change_that_fails_fails_alone(tmp_path: Path) -> None:
    def broken(transaction: Transaction) -> None:
        admit(transaction, job(9), RULES, 0.0)
        raise Overloaded("by intent")

    with opened(url_in(tmp_path)) as database:

        async def scenario() -> list[object]:
            commits = Commits(database, 10)
            changes = [admission(1), broken, admission(1), admission(2)]
            done = await asyncio.gather(
                *(commits.change(change) for change in changes), return_exceptions=True
            )
            assert commits.up
            commits.close()
            return list(done)

        first, broke, same_id, last = asyncio.run(scenario())
        assert isinstance(broke, Overloaded)
        assert isinstance(same_id, Unavailable)  # what the database itself refused
        assert isinstance(first, Admitted)
        assert isinstance(last, Admitted)
        assert seen(database, 2)
        with pytest.raises(AssertionError):
            seen(database, 9)


def test_over_its_bound_a_change_is_refused_at_once(tmp_path: Path) -> None:
    with opened(url_in(tmp_path)) as database:

        async def scenario() -> None:
            commits = Commits(database, 2)
            two = [asyncio.ensure_future(commits.change(admission(n))) for n in (1, 2)]
            await asyncio.sleep(0)
            with pytest.raises(Overloaded, match="2 changes"):
                await commits.change(admission(3))
            await asyncio.gather(*two)
            commits.close()

        asyncio.run(scenario())


def test_a_change_is_made_although_its_caller_hung_up(tmp_path: Path) -> None:
    with opened(url_in(tmp_path)) as database:

        async def scenario() -> None:
            commits = Commits(database, 10)
            gone = asyncio.ensure_future(commits.change(admission(1)))
            stays = asyncio.ensure_future(commits.change(admission(2)))
            await asyncio.sleep(0)
            gone.cancel()
            await stays
            commits.close()

        asyncio.run(scenario())
        assert seen(database, 1)
        assert seen(database, 2)


def test_while_the_database_is_away_everybody_hears_of_it(tmp_path: Path) -> None:
    database = JobDatabase(url_in(tmp_path / "nowhere"))

    async def scenario() -> None:
        commits = Commits(database, 10)
        done = await asyncio.gather(
            *(commits.change(admission(n)) for n in (1, 2)), return_exceptions=True
        )
        assert [type(outcome) for outcome in done] == [Unavailable] * 2
        assert not commits.up
        with pytest.raises(Unavailable):
            await commits.read(lambda c: c.exec_driver_sql("SELECT 1"))
        commits.close()

    asyncio.run(scenario())
    database.close()
