import asyncio

import pytest

from cloud.registry.catalog.chain import EMPTY, head_of
from cloud.registry.replication.change_log import ChangeLog
from cloud.registry.replication.signed_heads import SignedHead, SignedHeadFile
from shared.errors import Malformed, Unavailable
from tests.cloud.registry.replication.chains import end_of, grown, promoted


class Entries:
    """A log in memory, as the catalog gives it."""

    def __init__(self, entries):
        self.entries = list(entries)

    def head(self):
        return end_of(self.entries)

    def log(self, after, limit):
        return self.entries[after : after + limit]


def sign(head):
    return f"{head.epoch} {head.seq} {head.sha256}"


@pytest.fixture
def file(tmp_path):
    return SignedHeadFile(tmp_path / "signed_head.json")


def answered(log, after=0, limit=100, wait_s=0.0):
    async def asked():
        async with asyncio.timeout(20):
            return await log.answer(after, limit, wait_s)

    return asyncio.run(asked())


def test_a_part_of_the_log_is_signed_where_it_ends(file):
    entries = grown([], 5)
    answer = answered(ChangeLog(Entries(entries), sign, file), 1, 2)
    assert answer.entries == tuple(entries[1:3])
    assert answer.head == head_of(entries[2])
    assert answer.signature == sign(answer.head)
    assert answer.newest == 5


def test_a_home_signs_old_entries_as_who_it_is_now(file):
    answer = answered(ChangeLog(Entries(promoted(grown([], 5))), sign, file), 1, 2)
    assert (answer.head.epoch, answer.head.seq, answer.newest) == (2, 3, 6)


def test_an_empty_log_has_a_head(file):
    assert answered(ChangeLog(Entries([]), sign, file)).head == EMPTY


def test_a_question_waits_for_the_next_entry_and_is_answered_at_once(file):
    async def scenario():
        catalog = Entries(grown([], 2))
        log = ChangeLog(catalog, sign, file, look_s=60.0)
        asked = asyncio.create_task(log.answer(2, 10, 60.0))
        while not log.newest:  # noqa: ASYNC110  it has looked, and found nothing
            await asyncio.sleep(0)
        catalog.entries = grown(catalog.entries, 1)
        log.changed()
        async with asyncio.timeout(10):
            return await asked

    assert [entry.seq for entry in asyncio.run(scenario()).entries] == [3]


def test_what_another_process_wrote_is_seen_too(file):
    async def scenario():
        catalog = Entries(grown([], 2))
        log = ChangeLog(catalog, sign, file, look_s=0.05)
        asked = asyncio.create_task(log.answer(2, 10, 60.0))
        while not log.newest:  # noqa: ASYNC110  as above
            await asyncio.sleep(0)
        catalog.entries = grown(catalog.entries, 1)
        async with asyncio.timeout(10):
            return await asked

    assert asyncio.run(scenario()).head.seq == 3


def test_a_question_that_nothing_answers_ends_with_the_head(file):
    answer = answered(ChangeLog(Entries(grown([], 2)), sign, file), 2, 10, 0.05)
    assert (answer.entries, answer.head.seq) == ((), 2)


def test_who_is_further_than_the_log_is_told_at_once(file):
    assert answered(ChangeLog(Entries(grown([], 2)), sign, file), 9, 10, 60.0).head.seq == 2


@pytest.mark.parametrize(
    ("after", "limit", "wait_s"),
    [(-1, 1, 0), (2**53, 1, 0), (0, 0, 0), (0, 1001, 0), (0, 1, 61), (0, 1, float("nan"))],
)
def test_questions_out_of_bounds_are_refused(file, after, limit, wait_s):
    with pytest.raises(Malformed, match="log: want"):
        answered(ChangeLog(Entries([]), sign, file), after, limit, wait_s)


def test_a_replica_passes_on_what_its_home_signed_and_no_more(file):
    entries = grown([], 6)
    head = head_of(entries[3])
    file.write(SignedHead(head=head, signature="of the home", newest=9))
    log = ChangeLog(Entries(entries), None, file)
    answer = answered(log, 1)
    assert answer.entries == tuple(entries[1:4])
    assert (answer.head, answer.signature, answer.newest) == (head, "of the home", 9)
    with pytest.raises(Unavailable, match="vouch"):
        answered(log, 1, 2)


def test_a_replica_that_has_heard_of_no_home_vouches_for_nothing(file):
    with pytest.raises(Unavailable, match="no home"):
        answered(ChangeLog(Entries(grown([], 2)), None, file))


def test_a_damaged_signed_head_is_as_good_as_none(file):
    file.path.write_bytes(b"{")
    assert file.read() is None
