"""Batches as SQL: no step is long, and none looks through a whole table."""

import sqlite3
from dataclasses import fields

import pytest

from cloud.broker.session.records import Batch, SubscriptionRow
from cloud.broker.store import schema
from cloud.broker.store.statements import (
    BYTES_PER_STEP,
    ROWS_PER_STEP,
    Statement,
    identifiers_of,
    rows_in,
    steps,
)
from tests.cloud.broker.store.batches import delivery, message, queued, session


def one_of_each() -> Batch:
    return Batch(
        1, [message(1)], [2], [delivery(1, "c", 1)], [2], [session("c")], ["d"],
        [SubscriptionRow("c", "f", 1, 0)], [("c", "g")], [("c", 1)], [("c", 2)], [("t", 1)], ["u"],
    )  # fmt: skip


def test_no_change_looks_through_a_whole_table() -> None:
    one = one_of_each()
    double = Batch(2, *(getattr(one, kind.name) * 2 for kind in fields(one)[1:]))
    db = sqlite3.connect(":memory:")
    db.executescript(schema.TABLES)
    seen = 0
    for batch in (one, double):
        for text, values in steps(batch):
            for *_, plan in db.execute(f"EXPLAIN QUERY PLAN {text}", values):
                words = plan.split()
                assert not (words[0] == "SCAN" and words[1] in text.split()), (text, plan)
                seen += words[0] == "SEARCH"
    db.close()
    assert seen == 2 * 8


@pytest.mark.parametrize("count", [0, 1, 2, 3, 255, 256, 257, 511, 1_000])
def test_steps_hold_all_rows_once_in_order_and_few_texts(count: int) -> None:
    statement = Statement("VALUES {}", 2)
    rows = [(n, -n) for n in range(count)]
    found = list(statement.steps(rows))
    assert [value for _, values in found for value in values] == [v for row in rows for v in row]
    for text, values in found:
        assert text.count("(?, ?)") == len(values) // 2
        assert len(values) // 2 in {1 << n for n in range(9)}
    assert len(found) <= count // ROWS_PER_STEP + 8


@pytest.mark.parametrize(("payload_bytes", "steps_max"), [(100, 8), (8_192, 32), (600_000, 4)])
def test_a_step_copies_a_bounded_number_of_bytes(payload_bytes: int, steps_max: int) -> None:
    batch = queued(2_000 if payload_bytes < 10_000 else 4, payload_bytes)
    batch.deliveries, batch.sessions = [], []
    found = list(steps(batch))
    assert len(found) <= steps_max + 5
    for _, values in found:
        size = sum(len(value) for value in values if isinstance(value, bytes))
        assert size <= max(BYTES_PER_STEP + 8_192, payload_bytes + 1)


@pytest.mark.parametrize("identifiers", [(), (1,), (1, 268_435_455)])
def test_identifiers_come_back(identifiers: tuple[int, ...]) -> None:
    batch = Batch(1, deliveries=[delivery(1, "c")._replace(identifiers=identifiers)])
    ((_, values),) = steps(batch)
    assert identifiers_of(values[5]) == identifiers


def test_every_kind_of_row_counts() -> None:
    assert rows_in(one_of_each()) == 12
    assert rows_in(Batch(7)) == 0
