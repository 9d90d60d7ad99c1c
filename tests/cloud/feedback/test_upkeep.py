"""Old samples go, sites are heard, and what is away is asked again."""

import asyncio
import logging

import pytest

from cloud.feedback.deleting import ROWS_AT_ONCE
from cloud.feedback.documents import Deletion, SampleQuery
from cloud.feedback.settings import FeedbackSettings
from cloud.feedback.sites import NoSites
from cloud.feedback.upkeep import Upkeep
from shared.errors import Unavailable
from tests.cloud.feedback.world import NOW, row, sample_of, world


class Fleet:
    """What the fleet says; None: it is away."""

    def __init__(self) -> None:
        self.says: dict[str, str] | None = {"cam-1": "lyon"}
        self.asked = 0

    async def sites(self):
        self.asked += 1
        if self.says is None:
            raise Unavailable("the fleet is away")
        return self.says


@pytest.fixture
def here(tmp_path):
    with world(f"sqlite:///{tmp_path / 'f.db'}", tmp_path, FeedbackSettings(kept_s=100)) as found:
        yield found


def test_a_round_hears_sites_and_lets_old_samples_go(here):
    here.write(row(1), row(2, at=NOW + 90))
    fleet = Fleet()
    upkeep = Upkeep(here.store, fleet, lambda: NOW + 110)
    asyncio.run(upkeep.look())
    assert here.count(SampleQuery()) == 1
    assert here.store.sample("cam-1", sample_of(2)).site == "lyon"
    fleet.says = {"cam-1": "nice"}
    asyncio.run(upkeep.look())
    assert here.store.sample("cam-1", sample_of(2)).site == "nice"
    fleet.says = {}  # forgotten by the fleet: its samples were taken there
    asyncio.run(upkeep.look())
    assert here.store.sample("cam-1", sample_of(2)).site == "nice"


def test_a_fleet_that_is_away_holds_nothing_up_and_is_said_once(here, caplog):
    here.write(row(1))
    fleet = Fleet()
    fleet.says = None
    upkeep = Upkeep(here.store, fleet, lambda: NOW + 110)
    with caplog.at_level(logging.INFO):
        asyncio.run(upkeep.look())
        asyncio.run(upkeep.look())
        fleet.says = {}
        asyncio.run(upkeep.look())
    assert here.count(SampleQuery()) == 0
    said = [one.message for one in caplog.records if "upkeep" in one.message]
    assert said == ["feedback_upkeep_fails", "feedback_upkeep_back"]


def test_it_ends_when_it_is_drained(here):
    async def main() -> None:
        upkeep = Upkeep(here.store, NoSites(), lambda: NOW)
        async with asyncio.timeout(20):
            running = asyncio.create_task(upkeep.run())
            upkeep.drain()
            await running

    asyncio.run(main())


def test_without_a_time_nothing_is_too_old(tmp_path):
    with world(f"sqlite:///{tmp_path / 'f.db'}", tmp_path, FeedbackSettings(kept_s=None)) as here:
        here.write(row(1))
        assert here.store.expire(NOW * 2) == 0


@pytest.mark.parametrize("is_by_person", [True, False])
def test_a_process_that_ends_deletes_no_more(here, is_by_person):
    here.write(*(row(n, at=NOW) for n in range(600)))
    deleting = here.store._deleting

    def pause(_s):
        here.store.close()
        return here.store._ending.wait(10)

    deleting._pause = pause
    if is_by_person:
        with pytest.raises(Unavailable, match=r"200 samples .* are deleted, more may be there"):
            deleting.by(Deletion(device="cam-1", comment=""), "ops", NOW)
    else:
        assert deleting.older_than(NOW + 1, NOW)[0] == 200
    assert here.store.state().rows == 400
    here.store.close()


def test_a_deletion_that_is_through_when_the_process_ends_is_through(here):
    here.write(row(1, at=NOW))
    here.store.close()
    assert here.store.delete(Deletion(device="cam-1", comment=""), "ops", NOW).rows == 1
    here.store.close()


def test_a_deletion_goes_in_small_transactions_with_pauses_between(here):
    """So a worker finds its turn: none holds the lock for more than so many rows."""
    count = 2 * ROWS_AT_ONCE + 50
    here.write(*(row(n) for n in range(count)))
    deleting = here.store._deleting
    pauses, rows, whole = [], [], deleting._database.write
    deleting._pause = pauses.append

    def watched(change):
        done = whole(change)
        rows.append(done)
        return done

    deleting._database.write = watched
    here.store.delete(Deletion(device="cam-1", comment=""), "ops", NOW)
    deleted = [done[0] for done in rows if isinstance(done, tuple)]
    assert deleted == [ROWS_AT_ONCE, ROWS_AT_ONCE, 50]
    assert len(pauses) == 3
    assert min(pauses) >= 0.03


def test_a_worker_writes_while_samples_are_deleted_and_what_it_writes_stays(here):
    """Between two lots the database is free; who goes on sending does not keep it busy for ever."""
    here.write(*(row(n) for n in range(ROWS_AT_ONCE + 1)))
    more = iter(range(9000, 9100))
    here.store._deleting._pause = lambda _s: here.write(row(next(more)))
    gone = here.store.delete(Deletion(until=NOW + 1, comment=""), "ops", NOW)
    assert gone.rows == ROWS_AT_ONCE + 1
    assert here.count(SampleQuery()) == 2
