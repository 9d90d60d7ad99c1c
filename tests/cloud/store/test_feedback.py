"""One contract for every database that the store may use."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cloud.store.feedback import Bounds, FeedbackTable
from shared.errors import Malformed, Refused, Unavailable
from shared.ids import DeviceId
from simulations.postgres import Postgres
from tests.cloud.samples import DEVICE, feedback, sample

PLENTY = Bounds(rows_max=10_000, bytes_max=10**9)
Open = Callable[[Bounds], FeedbackTable]


@pytest.fixture(params=["sqlite", "postgresql"])
def open_table(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Each call opens the same database again, as another worker would."""
    opened: list[FeedbackTable] = []
    url = f"sqlite:///{tmp_path / 'feedback.db'}"
    if request.param == "postgresql":
        postgres: Postgres = request.getfixturevalue("postgres")
        url = postgres.new_database()

    def open_it(bounds: Bounds) -> FeedbackTable:
        table = FeedbackTable(url, bounds)
        table.open()
        opened.append(table)
        return table

    yield open_it
    for table in opened:
        table.close()


def test_a_stored_answer_is_found_as_it_was_given(open_table: Open) -> None:
    row = feedback(1)
    table = open_table(PLENTY)
    assert table.write([row]).inserted == 1
    found = open_table(PLENTY).find([row.key])[row.key]
    assert np.array_equal(found.probabilities, row.answer.probabilities)
    assert replace(found, probabilities=row.answer.probabilities) == row.answer


def test_a_second_copy_changes_nothing(open_table: Open) -> None:
    table = open_table(PLENTY)
    table.write([feedback(1)])
    again = table.write([feedback(1, version="3.0.0"), feedback(2), feedback(2)])
    assert again.inserted == 1
    key = feedback(1).key
    assert table.find([key])[key].model_version == "2.0.0"


def test_the_same_id_from_two_devices_is_two_samples(open_table: Open) -> None:
    table, other = open_table(PLENTY), DeviceId("cam-2")
    table.write([feedback(1), feedback(1, device=other)])
    assert set(table.find([(DEVICE, sample(1)), (other, sample(1))])) == {
        (DEVICE, sample(1)), (other, sample(1)),
    }  # fmt: skip
    assert table.find([(DeviceId("cam-3"), sample(1))]) == {}


def test_over_its_rows_the_oldest_go_first_and_are_counted(open_table: Open) -> None:
    table = open_table(Bounds(rows_max=3, bytes_max=10**9))
    assert table.write([feedback(n) for n in range(3)]).evicted == 0
    assert table.write([feedback(n) for n in range(3, 5)]).evicted == 2
    kept = table.find([feedback(n).key for n in range(5)])
    assert sorted(id_.int for _, id_ in kept) == [2, 3, 4]


def test_over_its_bytes_the_oldest_go_first(open_table: Open) -> None:
    row_bytes = 16 + 12 + 450
    table = open_table(Bounds(rows_max=100, bytes_max=2 * row_bytes))
    assert table.write([feedback(n) for n in range(5)]).evicted == 3
    kept = table.find([feedback(n).key for n in range(5)])
    assert sorted(id_.int for _, id_ in kept) == [3, 4]


def test_the_bounds_hold_over_two_writers_and_a_restart(open_table: Open) -> None:
    bounds = Bounds(rows_max=4, bytes_max=10**9)
    first, second = open_table(bounds), open_table(bounds)
    first.write([feedback(n) for n in range(3)])
    assert second.write([feedback(n) for n in range(3, 6)]).evicted == 2
    assert open_table(bounds).write([feedback(9)]).evicted == 1
    found = first.find([feedback(n).key for n in range(10)])
    assert sorted(id_.int for _, id_ in found) == [3, 4, 5, 9]


def test_what_was_stored_before_a_restart_is_known_after_it(open_table: Open) -> None:
    open_table(PLENTY).write([feedback(1)])
    again = open_table(PLENTY)
    assert sample(1) in again.known
    assert sample(2) not in again.known


def test_another_workers_rows_are_known_after_the_next_commit(open_table: Open) -> None:
    mine, theirs = open_table(PLENTY), open_table(PLENTY)
    theirs.write([feedback(1)])
    mine.write([feedback(2)])
    assert sample(1) in mine.known


@pytest.mark.parametrize(
    "spoil",
    [{"captured_at": float("nan")}, {"edge_label": 2**70}],
    ids=["not a number", "not a 64-bit integer"],
)
def test_a_row_the_database_will_never_take_is_refused_and_leaves_no_trace(
    open_table: Open, spoil: dict[str, float]
) -> None:
    table, row = open_table(PLENTY), feedback(2)
    bad = replace(row, escalation=replace(row.escalation, **spoil))  # type: ignore[arg-type]  # a table of keywords
    with pytest.raises(Refused):
        table.write([feedback(1), bad])
    assert table.find([feedback(1).key]) == {}
    assert table.write([feedback(1)]).inserted == 1


def test_nothing_to_write_is_nothing(open_table: Open) -> None:
    assert open_table(PLENTY).write([]).inserted == 0


def test_a_database_that_cannot_be_opened_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no-such-folder"):
        FeedbackTable(f"sqlite:///{tmp_path}/no-such-folder/f.db", PLENTY).open()


@pytest.mark.parametrize("url", ["nonsense", "nosuch://x", ""])
def test_a_url_that_is_none_is_malformed(url: str) -> None:
    with pytest.raises(Malformed, match=r"store\.url"):
        FeedbackTable(url, PLENTY)


def test_sqlite_commits_stand_a_power_cut_and_readers_do_not_block(tmp_path: Path) -> None:
    table = FeedbackTable(f"sqlite:///{tmp_path / 'f.db'}", PLENTY)
    table.open()
    with table._engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2  # FULL
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    table.close()


def test_a_locked_database_is_unavailable_and_works_again_afterwards(tmp_path: Path) -> None:
    table = FeedbackTable(f"sqlite:///{tmp_path / 'f.db'}", PLENTY)
    table.open()
    with table._engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA busy_timeout=1")
    blocker = sqlite3.connect(tmp_path / "f.db", isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="locked"):
        table.write([feedback(1)])
    blocker.execute("ROLLBACK")
    blocker.close()
    assert table.write([feedback(1)]).inserted == 1
    table.close()


def test_workers_that_start_at_once_all_open_a_new_database(tmp_path: Path) -> None:
    count = 8
    for turn in range(10):
        url, together = f"sqlite:///{tmp_path / str(turn)}.db", threading.Barrier(count)

        def start(url: str = url, together: threading.Barrier = together) -> None:
            table = FeedbackTable(url, PLENTY)
            together.wait()
            table.open()
            table.close()

        with ThreadPoolExecutor(count) as pool:
            for started in [pool.submit(start) for _ in range(count)]:
                started.result()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    table = FeedbackTable(f"sqlite:///{tmp_path}/none/feedback.db", PLENTY)
    with pytest.raises(
        Unavailable, match=f"there is no folder {tmp_path}/none .*start the process"
    ):
        table.open()
    assert not list(tmp_path.iterdir())
