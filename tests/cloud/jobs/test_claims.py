"""Who works at a job, what time does to it, and that it has one end."""

from pathlib import Path
from typing import Any

import pytest

from cloud.jobs.admission import admit
from cloud.jobs.claims import claim, finish, give_back
from cloud.jobs.database import JobDatabase
from cloud.jobs.record import Claimed, Failure
from cloud.jobs.results import counts_by_state, ended_of, fetched, page, remove
from cloud.jobs.sweep import Swept, sweep
from shared.oip.body import Encoded
from tests.cloud.jobs.sample import CALLER, RULES, do, job, look, opened, put, rules, seen, url_in

DAY = RULES.expiry_s
ANSWER = Encoded(b"{}", None)


def take(database: JobDatabase, now: float, count: int = 10, with_: Any = RULES) -> list[Claimed]:
    return do(database, lambda t: claim(t, count, with_, now))[0]


def end(database: JobDatabase, held: Claimed, now: float, outcome: Any = ANSWER) -> bool:
    return do(database, lambda t: finish(t, held, outcome, RULES, now)) is not None


def swept(database: JobDatabase, now: float, with_: Any = RULES) -> Swept:
    return do(database, lambda t: sweep(t, with_, now))


def test_the_oldest_are_claimed_first_and_nobody_else_gets_them(tmp_path: Path) -> None:
    with opened(url_in(tmp_path)) as one, opened(url_in(tmp_path)) as two:
        for n in range(1, 6):
            put(one, job(n), now=float(n))
        assert [held.id.int for held in take(one, 10.0, 2)] == [1, 2]
        assert [held.id.int for held in take(two, 10.0)] == [3, 4, 5]
        assert take(one, 10.0) == []


def test_a_job_is_claimed_as_it_was_given(tmp_path: Path) -> None:
    with opened(url_in(tmp_path)) as database:
        put(database, job(1, version="2", header_length="7", webhook="https://a.example/"))
        (held,) = take(database, 5.0)
        assert (held.model, held.version, held.body) == ("tiny", "2", job(1).body)
        assert (held.header_length, held.has_webhook) == ("7", True)
        assert held.lease_until == 5.0 + RULES.lease_s


def test_after_the_lease_another_gets_it_and_the_first_comes_too_late(tmp_path: Path) -> None:
    with opened(url_in(tmp_path)) as database:
        put(database, job(1))
        (first,) = take(database, 0.0)
        assert take(database, RULES.lease_s - 0.1) == []
        (second,), lost = do(database, lambda t: claim(t, 1, RULES, RULES.lease_s))
        assert lost == 1
        assert not end(database, first, RULES.lease_s + 1, Encoded(b"late", None))
        assert end(database, second, RULES.lease_s + 2, Encoded(b"mine", None))
        assert not end(database, second, RULES.lease_s + 3, Encoded(b"twice", None))
        answer = seen(database).answer
        assert answer is not None
        assert answer.body == b"mine"


def test_a_result_is_as_it_was_given_and_its_request_is_dropped(tmp_path: Path) -> None:
    with opened(url_in(tmp_path)) as database:
        put(database, job(1, body=b"x" * 100_000))
        (held,) = take(database, 0.0)
        end(database, held, 1.0, Encoded(b"{}\0\1", 2))
        assert seen(database).answer == Encoded(b"{}\0\1", 2)
        with database._engine.connect() as connection:
            row = connection.exec_driver_sql("SELECT length(body), row_bytes FROM jobs").one()
        assert (row[0], row[1] < 1_000) == (0, True)


def test_a_job_given_back_waits_and_its_claims_count_anew(tmp_path: Path) -> None:
    once = rules(claims_max=1)
    with opened(url_in(tmp_path)) as database:
        put(database, job(1))
        (held,) = take(database, 0.0, with_=once)
        assert do(database, lambda t: give_back(t, held, 30.0))
        assert take(database, 29.0, with_=once) == []
        (again,) = take(database, 30.0, with_=once)
        assert again.attempts == 1


def test_a_job_whose_workers_all_died_is_failed_not_tried_for_ever(tmp_path: Path) -> None:
    with opened(url_in(tmp_path)) as database:
        put(database, job(1))
        now = 0.0
        for _ in range(RULES.claims_max):
            assert swept(database, now).given_up == {}
            assert len(take(database, now)) == 1
            now += RULES.lease_s
        assert take(database, now) == []
        found = swept(database, now)
        assert found.given_up == {"poison": 1}
        assert found.ended == (job(1).id,)
        view = seen(database).view
        assert view.failure is not None
        assert (view.state, view.failure.reason) == ("failed", "poison")


def test_a_job_that_nobody_answered_in_time_is_expired(tmp_path: Path) -> None:
    with opened(url_in(tmp_path)) as database:
        put(database, job(1), now=0.0)
        assert swept(database, DAY - 1).given_up == {}
        assert take(database, DAY + 1) == []
        assert swept(database, DAY).given_up == {"expired": 1}
        assert seen(database).view.state == "expired"


def test_what_runs_at_its_expiry_is_finished(tmp_path: Path) -> None:
    with opened(url_in(tmp_path)) as database:
        put(database, job(1), now=0.0)
        (held,) = take(database, DAY - 1)
        assert swept(database, DAY + 1).given_up == {}
        assert end(database, held, DAY + 2)
        view = seen(database).view
        assert (view.state, view.kept_until) == ("done", DAY + 2 + RULES.kept_s)


def test_an_answer_that_was_fetched_is_kept_for_a_while(tmp_path: Path) -> None:
    with opened(url_in(tmp_path)) as database:
        put(database, job(1))
        (held,) = take(database, 0.0)
        end(database, held, 1.0)
        for at in (2.0, 1000.0):  # the first time counts
            do(database, lambda t, at=at: fetched(t, job(1).id, RULES, at))
        swept(database, 2.0 + RULES.kept_s - 1)
        assert seen(database).answer == ANSWER
        assert swept(database, 2.0 + RULES.kept_s).deleted == 1
        assert look(database) is None


def test_an_answer_that_nobody_fetched_is_given_up_in_view_then_deleted(tmp_path: Path) -> None:
    with opened(url_in(tmp_path)) as database:
        put(database, job(1))
        (held,) = take(database, 0.0)
        end(database, held, 1.0)
        assert swept(database, DAY - 1) == Swept()
        found = swept(database, DAY)
        assert (found.given_up, found.deleted) == ({"unfetched": 1}, 0)
        result = seen(database)
        assert (result.view.state, result.answer) == ("expired", None)
        assert swept(database, 2 * DAY).deleted == 1


def test_a_live_job_is_cancelled_and_its_answer_is_thrown_away(tmp_path: Path) -> None:
    with opened(url_in(tmp_path)) as database:
        for n in (1, 2):
            put(database, job(n))
        (held,) = take(database, 0.0, 1)
        for n in (1, 2):
            id_ = job(n).id
            assert (
                do(database, lambda t, id_=id_: remove(t, CALLER, id_, RULES, 1.0)) == "cancelled"
            )
        assert not end(database, held, 2.0)
        assert take(database, 1e6) == []
        assert [seen(database, n).view.state for n in (1, 2)] == ["cancelled"] * 2
        assert do(database, lambda t: remove(t, CALLER, job(1).id, RULES, 1.0)) == "deleted"
        assert do(database, lambda t: remove(t, CALLER, job(1).id, RULES, 1.0)) is None


def test_another_callers_job_is_no_job(tmp_path: Path) -> None:
    with opened(url_in(tmp_path)) as database:
        put(database, job(2, caller="key-2"))
        put(database, job(1))
        assert look(database, 1, "key-2") is None
        assert do(database, lambda t: remove(t, "key-2", job(1).id, RULES, 0.0)) is None
        assert [view.id.int for view in database.read(lambda c: page(c, "key-2", 10))] == [2]
        # nor does it tell by where a page begins that there is one
        assert database.read(lambda c: page(c, "key-2", 10, job(1).id)) == []


def test_pages_go_from_the_newest_to_the_oldest(tmp_path: Path) -> None:
    with opened(url_in(tmp_path)) as database:
        for n in range(1, 6):
            put(database, job(n))
        first = database.read(lambda c: page(c, CALLER, 2))
        second = database.read(lambda c: page(c, CALLER, 2, first[-1].id))
        assert [view.id.int for view in first + second] == [5, 4, 3, 2]


def test_what_ended_is_counted_and_told_apart_from_what_lives(tmp_path: Path) -> None:
    with opened(url_in(tmp_path)) as database:
        for n in (1, 2, 3):
            put(database, job(n))
        first, second = take(database, 0.0, 2)
        end(database, first, 1.0)
        end(database, second, 1.0, Failure("refused", "Malformed", "no"))
        assert database.read(counts_by_state) == {
            ("done", None): 1, ("failed", "refused"): 1, ("queued", None): 1,
        }  # fmt: skip
        ids = [job(n).id for n in (1, 2, 3, 4)]
        assert database.read(lambda c: ended_of(c, ids)) == {ids[0], ids[1], ids[3]}


@pytest.mark.parametrize("state", ["queued", "running"])
def test_one_sweep_is_bounded_and_says_that_there_is_more(tmp_path: Path, state: str) -> None:
    many = [lambda t, n=n: admit(t, job(n), RULES, 0.0) for n in range(1, 301)]
    with opened(url_in(tmp_path)) as database:
        database.write(many)
        if state == "running":
            take(database, 0.0, 300)
        first, second = swept(database, 2 * DAY), swept(database, 2 * DAY)
        assert (first.given_up, first.more) == ({"expired": 256}, True)
        assert (second.given_up, second.more) == ({"expired": 44}, False)
