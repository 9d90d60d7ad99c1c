"""What is accepted is on disk, once for each key, within the bounds."""

import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import event

from cloud.jobs.admission import admit
from cloud.jobs.claims import claim, finish
from cloud.jobs.database import Transaction
from cloud.jobs.results import remove
from cloud.jobs.schema import ROW_OVERHEAD_BYTES
from shared.errors import Malformed, Overloaded, Refused, Unavailable
from shared.oip.body import Encoded
from tests.cloud.jobs.sample import do, job, look, opened, put, rules, seen, url_in


def test_a_job_that_was_accepted_is_there_after_a_restart(tmp_path: Path) -> None:
    with opened(url_in(tmp_path)) as database:
        assert put(database, job(1)).fresh
    with opened(url_in(tmp_path)) as database:
        assert seen(database).view.state == "queued"


def test_a_commit_stands_a_power_cut(tmp_path: Path) -> None:
    with opened(url_in(tmp_path)) as database, database._engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2  # FULL
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"


def test_the_same_key_and_request_are_the_same_job(tmp_path: Path) -> None:
    with opened(url_in(tmp_path)) as database:
        put(database, job(1, idempotency_key="a"))
        again = put(database, job(2, idempotency_key="a", body=job(1).body))
        assert (again.id, again.fresh) == (job(1).id, False)
        assert look(database, 2) is None


@pytest.mark.parametrize(
    "other",
    [{"body": b"{}"}, {"model": "other"}, {"version": "2"}, {"header_length": "2"},
     {"webhook": "https://a.example/"}],
    ids=["body", "model", "version", "header length", "webhook"],
)  # fmt: skip
def test_a_key_with_another_request_is_refused(tmp_path: Path, other: dict[str, str]) -> None:
    with opened(url_in(tmp_path)) as database:
        put(database, job(1, idempotency_key="a"))
        same = {"idempotency_key": "a", "body": job(1).body}
        with pytest.raises(Refused, match="belongs to another request"):
            put(database, job(2, **(same | other)))


def test_another_callers_key_is_another_key(tmp_path: Path) -> None:
    with opened(url_in(tmp_path)) as database:
        put(database, job(1, idempotency_key="a"))
        assert put(database, job(2, idempotency_key="a", caller="key-2")).fresh


def test_two_of_one_key_in_one_group_are_one_job(tmp_path: Path) -> None:
    with opened(url_in(tmp_path)) as database:
        twice = [job(n, idempotency_key="a", body=b"{}") for n in (1, 2)]
        first, second = database.write(
            [lambda t, new=new: admit(t, new, rules(), 0.0) for new in twice]
        )
        assert first.fresh
        assert (second.id, second.fresh) == (first.id, False)


@pytest.mark.parametrize(
    ("bound", "words"),
    [
        ({"jobs_max": 2}, "there are 2 jobs of 2"),
        ({"caller_jobs_max": 2}, "you have 2 jobs here of 2"),
        ({"bytes_max": 2 * (ROW_OVERHEAD_BYTES + 108)}, "all jobs take 1416 bytes of 1416"),
        ({"caller_bytes_max": 2 * (ROW_OVERHEAD_BYTES + 108)}, "your jobs take 1416 bytes"),
    ],
)
def test_over_a_bound_a_job_is_refused_in_words(
    tmp_path: Path, bound: dict[str, int], words: str
) -> None:
    bounded = rules(answer_bytes_expected=100, **bound)
    with opened(url_in(tmp_path)) as database:
        for n in (1, 2):
            put(database, job(n), with_=bounded)
        with pytest.raises(Overloaded, match=words) as refused:
            put(database, job(3), with_=bounded)
        assert refused.value.retry_after_s == 60
        assert look(database, 3) is None
        do(database, lambda t: remove(t, job(1).caller, job(1).id, bounded, 0.0))  # cancelled
        do(database, lambda t: remove(t, job(1).caller, job(1).id, bounded, 0.0))  # deleted
        put(database, job(3), with_=bounded)


def test_one_callers_bound_leaves_room_for_others(tmp_path: Path) -> None:
    bounded = rules(caller_jobs_max=1)
    with opened(url_in(tmp_path)) as database:
        put(database, job(1), with_=bounded)
        with pytest.raises(Overloaded):
            put(database, job(2), with_=bounded)
        put(database, job(3, caller="key-2"), with_=bounded)


def test_a_bound_holds_within_one_group_and_the_rest_of_it_stands(tmp_path: Path) -> None:
    bounded = rules(jobs_max=3)
    with opened(url_in(tmp_path)) as database:
        outcomes = database.write(
            [lambda t, n=n: admit(t, job(n), bounded, 0.0) for n in range(1, 6)]
        )
        assert [isinstance(outcome, Overloaded) for outcome in outcomes] == [False] * 3 + [True] * 2
        assert [look(database, n) is not None for n in range(1, 6)] == [True] * 3 + [False] * 2


def test_a_change_that_was_rolled_back_is_not_counted(tmp_path: Path) -> None:
    def broken(transaction: Transaction) -> None:
        admit(transaction, job(9), bounded, 0.0)
        raise Refused("by intent")

    bounded = rules(jobs_max=1)
    with opened(url_in(tmp_path)) as database:
        _, second, third = database.write([
            broken, lambda t: admit(t, job(1), bounded, 0.0), lambda t: admit(t, job(2), bounded, 0.0)
        ])  # fmt: skip
        assert second.fresh
        assert isinstance(third, Overloaded)


def test_a_full_store_is_counted_once_for_a_group(tmp_path: Path) -> None:
    bounded, counted = rules(jobs_max=1), list[str]()
    with opened(url_in(tmp_path)) as database:
        put(database, job(1), with_=bounded)

        @event.listens_for(database._engine, "before_cursor_execute")
        def note(_connection, _cursor, statement, *_more):
            if "count(*)" in statement:
                counted.append(statement)

        full = database.write([lambda t, n=n: admit(t, job(n), bounded, 0.0) for n in range(2, 50)])
        assert {type(outcome) for outcome in full} == {Overloaded}
        assert len(counted) == 2  # the caller's, and all


def test_an_answer_that_nothing_has_room_for_fails_its_job(tmp_path: Path) -> None:
    bounded = rules(answer_bytes_expected=1, bytes_max=10_000, answer_bytes_max=20_000)
    with opened(url_in(tmp_path)) as database:
        put(database, job(1), with_=bounded)
        (held,), _ = do(database, lambda t: claim(t, 1, bounded, 0.0))
        do(database, lambda t: finish(t, held, Encoded(b"x" * 10_000, None), bounded, 1.0))
        failure = seen(database).view.failure
        assert failure is not None
        assert (failure.reason, failure.error) == ("no_room", "Overloaded")


def test_an_answer_over_its_bound_fails_its_job(tmp_path: Path) -> None:
    bounded = rules(answer_bytes_max=10)
    with opened(url_in(tmp_path)) as database:
        put(database, job(1), with_=bounded)
        (held,), _ = do(database, lambda t: claim(t, 1, bounded, 0.0))
        do(database, lambda t: finish(t, held, Encoded(b"x" * 11, None), bounded, 1.0))
        failure = seen(database).view.failure
        assert failure is not None
        assert (failure.reason, failure.error) == ("no_room", "TooLarge")


def test_a_callers_own_deadline_ends_a_job_before_the_tiers(tmp_path: Path) -> None:
    with opened(url_in(tmp_path)) as database:
        put(database, job(1, within_s=60.0), now=100.0)
        put(database, job(2, within_s=1e9), now=100.0)
        assert seen(database, 1).view.expires_at == 160.0
        assert seen(database, 2).view.expires_at == 100.0 + rules().expiry_s


@pytest.mark.parametrize("url", ["nonsense", "nosuch://x", ""])
def test_a_url_that_is_none_is_malformed(url: str) -> None:
    with pytest.raises(Malformed, match=r"jobs\.url"), opened(url):
        pass


def test_a_database_that_cannot_be_opened_is_unavailable(tmp_path: Path) -> None:
    with (
        pytest.raises(Unavailable, match="no-such-folder"),
        opened(url_in(tmp_path / "no-such-folder")),
    ):
        pass


def test_a_locked_database_is_unavailable_and_works_again_afterwards(tmp_path: Path) -> None:
    with opened(url_in(tmp_path)) as database:
        with database._engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA busy_timeout=1")
        other = sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable, match="locked"):
            put(database, job(1))
        other.execute("ROLLBACK")
        other.close()
        put(database, job(1))
