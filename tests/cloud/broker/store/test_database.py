"""The store on a real file: what goes in comes out, and what it says about files it cannot use."""

import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloud.broker.session.records import Batch, Snapshot
from cloud.broker.store import schema
from cloud.broker.store.database import Database
from shared.errors import InUse, Malformed, Unavailable
from tests.cloud.broker.store.batches import (
    Model,
    batches,
    delivery,
    message,
    model_of,
    queued,
    session,
)


@contextmanager
def opened(path: Path) -> Iterator[Database]:
    with closing(Database(path, "off")) as database:
        yield database


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "broker.db"


@settings(deadline=None)
@given(st.lists(st.tuples(batches(), st.integers(1, 2)), min_size=1, max_size=6))
def test_what_is_written_once_or_twice_is_loaded(written: list[tuple[Batch, int]]) -> None:
    model = Model()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "broker.db"
        for batch, times in written:
            with opened(path) as database:
                for _ in range(times):
                    database.write(batch)
                model.write(batch)
                model.forget_what_belongs_to_nothing()
                assert model_of(database.load()) == model
        with opened(path) as database:
            assert model_of(database.load()) == model


@pytest.mark.parametrize("count", [255, 256, 257, 1_000])
def test_any_number_of_rows_is_written_and_deleted(path: Path, count: int) -> None:
    batch = queued(count)
    with opened(path) as database:
        database.write(batch)
        loaded = database.load()
        assert loaded.messages == batch.messages
        assert loaded.deliveries == batch.deliveries
        ids = [row.message_id for row in batch.messages]
        database.write(Batch(2, messages_gone=ids, deliveries_gone=ids, sessions_gone=["c"]))
        assert database.load() == Snapshot()


def test_flags_come_back_as_flags(path: Path) -> None:
    with opened(path) as database:
        database.write(queued(1))
        loaded = database.load()
    assert loaded.messages[0].retain is False
    assert loaded.deliveries[0].retain is False


def test_an_ended_session_may_begin_anew_in_the_same_batch(path: Path) -> None:
    with opened(path) as database:
        database.write(Batch(1, sessions=[session("c", 5.0)], received=[("c", 1)]))
        again = Batch(2, sessions_gone=["c"], sessions=[session("c", 9.0)], received=[("c", 2)])
        database.write(again)
        database.write(again)
        loaded = database.load()
    assert loaded.sessions == [session("c", 9.0)]
    assert loaded.received == [("c", 2)]


def test_rows_that_belong_to_nothing_are_logged_and_deleted(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(path) as database:
        database.write(
            Batch(1, messages=[message(1)], deliveries=[delivery(n, "x", 1) for n in (1, 2)])
        )
        assert database.load() == Snapshot()
        assert [(r.message, r.kind, r.count) for r in caplog.records] == [  # type: ignore[attr-defined]
            ("stored_rows_dropped", "message", 1),
            ("stored_rows_dropped", "delivery", 2),
        ]
        caplog.clear()
        assert database.load() == Snapshot()
        assert not caplog.records


def test_nobody_else_may_read_the_files(path: Path) -> None:
    old_mask = os.umask(0)
    try:
        with opened(path) as database:
            database.write(queued(10))
            modes = {one.name: one.stat().st_mode & 0o777 for one in path.parent.iterdir()}
            assert modes == {"broker.db": 0o600, "broker.db-wal": 0o600}
        path.chmod(0o644)
        with opened(path):
            assert path.stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(old_mask)


def test_a_second_broker_is_refused_and_the_first_keeps_its_hold(path: Path) -> None:
    script = f"""
from pathlib import Path
from cloud.broker.store.database import Database
try:
    Database(Path({str(path)!r}), "full")
except Exception as error:
    print(type(error).__name__, error)
"""
    with opened(path) as database:
        for _ in range(2):
            with pytest.raises(InUse, match="stop that one, or choose another --state-dir"):
                Database(path, "full")
        other = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        )
        assert other.stdout.startswith(f"InUse {path}: another broker holds it")
        database.write(queued(1))
    with opened(path) as database:
        assert len(database.load().messages) == 1


def test_a_full_disk_takes_nothing_and_the_same_batch_fits_later(path: Path) -> None:
    with opened(path) as database:
        first, second = queued(10), queued(500, 2_000, first=20)
        database.write(first)
        database._connection.execute("PRAGMA max_page_count = 40")
        for _ in range(2):
            with pytest.raises(Unavailable, match="free space on its disk"):
                database.write(second)
            assert database.load().messages == first.messages
        database._connection.execute("PRAGMA max_page_count = 100000")
        database.write(second)
        assert database.load().messages == first.messages + second.messages


def test_a_failing_disk_takes_nothing_and_the_same_batch_fits_later(path: Path) -> None:
    with opened(path) as database:
        first, second = queued(10), queued(500, 2_000, first=20)
        database.write(first)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, limits[1]))
        try:
            with pytest.raises(Unavailable, match="disk I/O error"):
                database.write(second)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert database.load().messages == first.messages
        database.write(second)
        assert database.load().messages == first.messages + second.messages


def test_a_row_that_fits_no_table_is_a_bug_and_leaves_nothing_behind(path: Path) -> None:
    with opened(path) as database:
        with pytest.raises(sqlite3.IntegrityError):
            database.write(Batch(1, sessions=[session("c"), session("d", float("nan"))]))
        assert database.load() == Snapshot()
        database.write(Batch(1, sessions=[session("c")]))


def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    path.write_text("not a database " * 100)
    with pytest.raises(Malformed, match="move it away"):
        Database(path, "full")


def test_another_programs_database_is_refused(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE things (name TEXT)")
    with pytest.raises(Malformed, match="another program"):
        Database(path, "full")


def test_a_newer_brokers_file_is_refused(path: Path) -> None:
    with opened(path):
        pass
    with closing(sqlite3.connect(path)) as other:
        other.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    with pytest.raises(Malformed, match="update the broker"):
        Database(path, "full")


def test_a_refused_file_is_let_go(path: Path) -> None:
    test_a_newer_brokers_file_is_refused(path)
    with closing(sqlite3.connect(path)) as other:
        other.execute(f"PRAGMA user_version = {schema.VERSION}")
    with opened(path) as database:
        assert database.load() == Snapshot()


def test_damage_found_while_reading_is_said(path: Path) -> None:
    with opened(path) as database:
        database.write(queued(200))
    with path.open("r+b") as file:
        file.seek(4_096)
        file.write(b"\xff" * 20 * 4_096)
    with opened(path) as database, pytest.raises(Malformed, match="is damaged: move it away"):
        database.load()


def test_damage_found_while_writing_is_said(path: Path) -> None:
    with opened(path) as database:
        database.write(queued(200))
    with path.open("r+b") as file:
        file.seek(4_096)
        file.write(b"\xff" * 20 * 4_096)
    with opened(path) as database, pytest.raises(Malformed, match="is damaged: move it away"):
        database.write(queued(200))


def test_an_empty_file_is_a_new_store(path: Path) -> None:
    path.touch()
    with opened(path) as database:
        assert database.load() == Snapshot()


@pytest.mark.parametrize("folder", ["missing", "file"])
def test_a_folder_that_is_none_is_said(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Malformed, match="--state-dir must be a folder that exists"):
        Database(tmp_path / folder / "broker.db", "full")


def test_a_folder_in_the_files_place_is_said(path: Path) -> None:
    path.mkdir(mode=0o755)
    with pytest.raises(Malformed, match="not a file"):
        Database(path, "full")
    assert path.stat().st_mode & 0o777 == 0o755


def test_the_space_of_a_burst_is_used_again_and_given_back_at_the_next_start(path: Path) -> None:
    gone = list(range(1, 4_001))
    with opened(path) as database:
        for first in (1, 5_001):
            database.write(queued(4_000, 20_000, first))
            ids = [one + first - 1 for one in gone]
            database.write(Batch(0, messages_gone=ids, deliveries_gone=ids))
        database.write(queued(10, first=10_001))
    assert 80_000_000 < path.stat().st_size < 110_000_000
    with opened(path) as database:
        assert len(database.load().messages) == 10
    assert path.stat().st_size < 100_000


def test_deleting_does_not_write_payloads_again(path: Path) -> None:
    with opened(path) as database:
        database.write(queued(400, 20_000))
    with opened(path) as database:
        ids = list(range(1, 401))
        database.write(Batch(0, messages_gone=ids, deliveries_gone=ids))
        assert path.with_name("broker.db-wal").stat().st_size < 400_000


def test_the_log_is_cut_after_a_burst(path: Path) -> None:
    with opened(path) as database:
        database.write(queued(2_000, 20_000))
        for number in range(5_000, 5_004):
            database.write(queued(1, first=number))
        log_bytes = path.with_name("broker.db-wal").stat().st_size
    assert log_bytes <= 16 * 1024 * 1024
