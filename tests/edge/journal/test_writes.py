"""Whatever is written, in whatever order, how often: a recorded sample is in exactly one place."""

import math
import sqlite3
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.answers import Cursor
from edge.journal import database
from edge.journal.agent_clock import Stamp
from edge.journal.rows import Pending
from edge.journal.writes import Accepted, Bounds, Closed, GivenUp, Lost, Opened, Write, apply, purge
from shared.errors import Malformed, Unavailable
from tests.edge.samples import final, given_up, pending, sample

STAMP = Stamp("boot", 1.0, 2.0, 3.0)
ROOMY = Bounds(answers_max=1000, ledger_max=1000)
NUMBERS = st.integers(0, 7)


def _accepted(p: Pending) -> Write:
    return Accepted(final(p, source="edge", route="accepted"))


WRITES = st.one_of(
    NUMBERS.map(lambda n: Opened(pending(sample(n)))),
    NUMBERS.map(lambda n: Closed(final(pending(sample(n))))),
    NUMBERS.map(lambda n: GivenUp(given_up(pending(sample(n)), "expired"))),
    NUMBERS.map(lambda n: _accepted(pending(sample(100 + n)))),
)


def places(db: sqlite3.Connection) -> Counter[bytes]:
    return Counter(
        row[0]
        for table in ("outbox", "answers", "ledger")
        for row in db.execute(f"SELECT id FROM {table}")
    )


def totals(db: sqlite3.Connection) -> dict[str, int]:
    return dict(db.execute("SELECT name, count FROM counts"))


@pytest.fixture
def db(tmp_path: Path) -> sqlite3.Connection:
    return database.connect(tmp_path / "state.db")


@settings(max_examples=80, deadline=None)
@given(batches=st.lists(st.lists(WRITES, max_size=6), max_size=6))
def test_a_sample_is_in_exactly_one_place_and_the_counts_add_up(
    batches: list[list[Write]],
) -> None:
    db = database.connect(Path(":memory:"))
    for batch in batches:
        # a sample that was closed is never opened again: ids are new for each sample
        done = {row[0] for t in ("answers", "ledger") for row in db.execute(f"SELECT id FROM {t}")}
        kept = [w for w in batch if not (isinstance(w, Opened) and w.pending.id.bytes in done)]
        apply(db, kept, STAMP, ROOMY)
        counted = totals(db)
        assert set(places(db).values()) <= {1}
        (waiting,) = db.execute("SELECT count(*) FROM outbox").fetchone()
        assert counted.get("recorded", 0) == sum(places(db).values())
        assert counted.get("recorded", 0) == (
            waiting + counted.get("answered", 0) + counted.get("lost:expired", 0)
        )
    db.close()


def test_an_answer_moves_its_sample_in_one_step(db: sqlite3.Connection) -> None:
    p = pending()
    apply(db, [Opened(p)], STAMP, ROOMY)
    assert apply(db, [Closed(final(p))], STAMP, ROOMY) == {"answered": 1}
    assert db.execute("SELECT count(*) FROM outbox").fetchone() == (0,)
    assert db.execute("SELECT label, source FROM answers").fetchone() == (2, "cloud")


def test_a_second_answer_and_a_late_loss_change_nothing(db: sqlite3.Connection) -> None:
    p = pending()
    apply(db, [Opened(p), Closed(final(p))], STAMP, ROOMY)
    assert apply(db, [Closed(final(p, label=0))], STAMP, ROOMY) == {}
    assert apply(db, [GivenUp(given_up(p, "expired"))], STAMP, ROOMY) == {}
    assert db.execute("SELECT label FROM answers").fetchall() == [(2,)]
    assert db.execute("SELECT count(*) FROM ledger").fetchone() == (0,)


def test_old_answers_and_losses_go_but_stay_counted(db: sqlite3.Connection) -> None:
    small = Bounds(answers_max=3, ledger_max=2)
    for number in range(10):
        lost = pending(sample(number))
        apply(
            db,
            [_accepted(pending(sample(100 + number))), Opened(lost),
             GivenUp(given_up(lost, "outbox_full"))],
            STAMP,
            small,
        )  # fmt: skip
    assert db.execute("SELECT count(*) FROM answers").fetchone() == (3,)
    assert db.execute("SELECT count(*) FROM ledger").fetchone() == (2,)
    assert totals(db) == {"recorded": 20, "answered": 10, "lost:outbox_full": 10}


def test_a_cursor_comes_with_its_samples_or_not_at_all(db: sqlite3.Connection) -> None:
    apply(db, [_accepted(pending()), Cursor("s", "1")], STAMP, ROOMY)
    with pytest.raises(sqlite3.IntegrityError):
        apply(db, [Opened(pending()), Cursor("s", None)], STAMP, ROOMY)  # type: ignore[arg-type]  # to fail late
    assert db.execute("SELECT position FROM cursors").fetchall() == [("1",)]
    assert db.execute("SELECT count(*) FROM outbox").fetchone() == (0,)
    assert totals(db) == {"recorded": 1, "answered": 1}


def test_losses_that_never_reached_the_disk_are_counted(db: sqlite3.Connection) -> None:
    apply(db, [Lost("disk_full", 3), Lost("disk_full", 2)], STAMP, ROOMY)
    assert totals(db) == {"recorded": 5, "lost:disk_full": 5}


def test_a_file_that_is_no_database_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_bytes(b"this is no database, and long enough to be sure" * 20)
    with pytest.raises(Malformed, match=r"state.db: file is not a database; .* move it away"):
        database.connect(tmp_path / "state.db")


def test_a_journal_of_a_newer_agent_is_refused(tmp_path: Path) -> None:
    db = database.connect(tmp_path / "state.db")
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(Malformed, match="newer agent"):
        database.connect(tmp_path / "state.db")


def test_what_no_column_takes_is_an_error_and_not_a_sample_less(db: sqlite3.Connection) -> None:
    p = pending()
    apply(db, [Opened(p)], STAMP, ROOMY)
    for write in (Closed(final(p, confidence=math.nan)), Opened(pending(confidence=math.nan))):
        with pytest.raises(sqlite3.IntegrityError, match="confidence"):
            apply(db, [write], STAMP, ROOMY)
    assert places(db) == {p.id.bytes: 1}


def test_a_row_without_an_id_is_counted_as_damaged(db: sqlite3.Connection) -> None:
    kept, spoilt = pending(), pending()
    apply(db, [Opened(kept), Opened(spoilt)], STAMP, ROOMY)
    db.execute("UPDATE outbox SET id = x'0102' WHERE id = ?", (spoilt.id.bytes,))
    assert purge(db) == 1
    assert purge(db) == 0
    assert places(db) == {kept.id.bytes: 1}
    assert totals(db) == {"recorded": 2, "lost:damaged": 1}


def test_a_full_disk_is_no_damage() -> None:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    assert "free space" in str(database.unusable(Path("state.db"), error))
    assert isinstance(database.unusable(Path("state.db"), error), Unavailable)


def test_a_file_in_other_hands_is_no_damage(tmp_path: Path) -> None:
    with pytest.raises(Malformed, match="unable to open database file; let this user write"):
        database.connect(tmp_path / "none" / "state.db")
