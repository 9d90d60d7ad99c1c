"""The feedback database: from nothing, from the first program's table, from several processes."""

import multiprocessing
import sqlite3
from contextlib import closing
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from cloud.store import schema
from cloud.store.draw import draw_of
from cloud.store.feedback import Bounds, FeedbackTable
from cloud.store.opening import MIGRATIONS, migrate
from shared.errors import Malformed
from tests.cloud.samples import feedback, sample

PLENTY = Bounds(rows_max=10_000, bytes_max=10**9)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'its.db'}"
    return request.getfixturevalue("postgres").new_database()


def test_the_migrations_come_to_the_schema(url):
    migrate(url, "store.url")
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        options = {"version_table": MIGRATIONS.version_table, "compare_type": True}
        context = MigrationContext.configure(connection, opts=options)
        assert list(compare_metadata(context, schema.metadata)) == []
    engine.dispose()


def first_programs_table(url: str) -> None:
    """As `CREATE TABLE` of the program before there were versions had it, with two samples."""
    new = {
        "share", "cloud_label", "cloud_confidence", "label", "label_source", "contradicted", "draw",
    }  # fmt: skip
    old = sa.MetaData()
    columns = [column._copy() for column in schema.feedback.columns if column.name not in new]
    table = sa.Table("feedback", old, *columns,
        sa.UniqueConstraint("sample_id", "device", name="feedback_sample_once"),
        sqlite_autoincrement=True)  # fmt: skip
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        old.create_all(connection)
        for number, device in ((1, "cam-1"), (2, "cam-2")):
            connection.execute(table.insert().values(
                sample_id=sample(number), device=device, reason="escalated", captured_at=1.0,
                received_at=2.0, codec="raw", dtype="uint8", shape="4,4", dictionary="",
                payload=bytes(16), edge_model="tiny-edge", edge_version="1.0.0", edge_label=2,
                edge_confidence=0.4, cloud_model="tiny-cloud", cloud_version="2.0.0",
                probabilities=np.array([0.1, 0.7, 0.2], "<f4").tobytes(), queue_ms=0.5, run_ms=0.2,
                row_bytes=278,
            ))  # fmt: skip
    engine.dispose()


def test_a_table_without_versions_is_taken_with_its_samples(url):
    first_programs_table(url)
    table = FeedbackTable(url, PLENTY)
    table.open()
    assert table.find([feedback(1).key])[feedback(1).key].model_version == "2.0.0"
    assert table.write([feedback(1), feedback(3)]).inserted == 1
    with table._engine.connect() as connection:
        of = schema.feedback.c
        found = connection.execute(
            sa.select(of.share, of.cloud_label, of.label, of.label_source, of.draw,
                      of.cloud_confidence).where(of.sample_id == sample(2))
        ).one()  # fmt: skip
        assert found[:5] == (1.0, 1, 1, "cloud", draw_of(sample(2)))
        assert found[5] == pytest.approx(0.7)
        totals = connection.execute(sa.select(schema.devices).order_by("device")).all()
    assert [(name, rows) for name, rows, _ in totals] == [("", 3), ("cam-1", 2), ("cam-2", 1)]
    table.close()


def _open_at_once(url: str, start: Any) -> None:
    start.wait(60)
    table = FeedbackTable(url, PLENTY)
    table.open()
    assert sample(2) in table.known
    table.close()


def test_workers_may_start_at_once_on_a_table_without_versions(url):
    first_programs_table(url)
    spawn = multiprocessing.get_context("spawn")
    start = spawn.Barrier(3)
    workers = [spawn.Process(target=_open_at_once, args=(url, start)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]


def test_a_database_of_a_newer_program_is_refused_in_words(url):
    migrate(url, "store.url")
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE feedback_schema SET version_num = '9999'"))
    engine.dispose()
    with pytest.raises(Malformed, match="revision 9999, written by a newer program"):
        FeedbackTable(url, PLENTY).open()


def test_a_start_does_not_wait_for_who_writes(tmp_path):
    url = f"sqlite:///{tmp_path / 'its.db'}"
    migrate(url, "store.url")
    with closing(sqlite3.connect(tmp_path / "its.db", isolation_level=None)) as blocker:
        blocker.execute("BEGIN IMMEDIATE")
        table = FeedbackTable(url, PLENTY)
        table.open()
        table.close()
