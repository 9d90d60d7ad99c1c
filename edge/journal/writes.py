"""What can be written to the journal, and the one transaction that does it.

The tables keep the invariant by themselves: a sample moves out of the outbox only if it is there,
so a repeated or late write changes nothing, and nothing is ever in two places.
"""

import sqlite3
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from edge.answers import Answer, Cursor
from edge.journal.agent_clock import Stamp
from edge.journal.rows import (
    ANSWER_COLUMNS,
    PENDING_COLUMNS,
    Pending,
    Row,
    answer_row,
    pending_row,
)


@dataclass(frozen=True, slots=True)
class Accepted:
    """A sample whose edge answer is final."""

    answer: Answer


@dataclass(frozen=True, slots=True)
class Opened:
    """A sample that goes into the outbox."""

    pending: Pending


@dataclass(frozen=True, slots=True)
class Closed:
    """The final answer of a sample that leaves the outbox."""

    answer: Answer


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A sample that leaves the outbox for the loss ledger; its answer's `given_up` says why."""

    answer: Answer


@dataclass(frozen=True, slots=True)
class Lost:
    """Samples that never reached the disk, and why."""

    reason: str
    count: int


Write = Accepted | Opened | Closed | GivenUp | Lost | Cursor


@dataclass(frozen=True, slots=True)
class Bounds:
    """Rows that are kept; older ones live on in the counts alone."""

    answers_max: int
    ledger_max: int = 10_000


_ONCE = "ON CONFLICT (id) DO NOTHING"  # "OR IGNORE" would also swallow a NaN, as a NULL


def apply(
    db: sqlite3.Connection, writes: Sequence[Write], stamp: Stamp, bounds: Bounds
) -> dict[str, int]:
    """Write everything in one transaction, durable on return; returns the totals that changed.

    Raises `sqlite3.Error` with nothing written.
    """
    sorted_out = _Sorted(writes)
    db.execute("BEGIN IMMEDIATE")
    try:
        totals = sorted_out.write(db)
        db.execute(
            "INSERT OR REPLACE INTO clock VALUES (1, ?, ?, ?, ?)",
            (stamp.boot, stamp.monotonic_s, stamp.wall_s, stamp.agent_s),
        )
        _trim(db, "answers", bounds.answers_max)
        _trim(db, "ledger", bounds.ledger_max)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # SQLite ends it by itself on some errors
            db.execute("ROLLBACK")
        raise
    return totals


def purge(db: sqlite3.Connection) -> int:
    """Count as lost (`damaged`) the rows whose id is none any more; for the start."""
    (damaged,) = db.execute("SELECT count(*) FROM outbox WHERE length(id) <> 16").fetchone()
    if damaged:
        db.execute("BEGIN IMMEDIATE")
        db.execute("DELETE FROM outbox WHERE length(id) <> 16")
        _count(db, {"lost:damaged": damaged})
        db.execute("COMMIT")
    return int(damaged)


class _Sorted:
    """Writes by kind. Openings come first, so that what follows in the same batch finds them."""

    def __init__(self, writes: Sequence[Write]) -> None:
        self._opened: list[Row] = []
        self._accepted: list[Row] = []
        self._closed: list[Row] = []
        self._given_up: list[Row] = []
        self._cursors: list[Row] = []
        self._lost = Counter[str]()
        for write in writes:
            match write:
                case Accepted(answer):
                    self._accepted.append(answer_row(answer))
                case Opened(pending):
                    self._opened.append(pending_row(pending))
                case Closed(answer):
                    self._closed.append((*answer_row(answer), answer.id.bytes))
                case GivenUp(answer):
                    row = (answer.given_up, time.time(), *answer_row(answer), answer.id.bytes)
                    self._given_up.append(row)
                case Lost(reason, count):
                    self._lost[reason] += count
                case Cursor(source, position):
                    self._cursors.append((source, position))
                case _:
                    assert_never(write)

    def write(self, db: sqlite3.Connection) -> dict[str, int]:
        totals = Counter({f"lost:{reason}": count for reason, count in self._lost.items()})
        recorded = sum(self._lost.values())
        recorded += _insert(db, f"INSERT INTO outbox ({PENDING_COLUMNS})", self._opened)
        accepted = _insert(db, f"INSERT INTO answers ({ANSWER_COLUMNS})", self._accepted)
        recorded += accepted
        closed = _move(db, "answers", ANSWER_COLUMNS, self._closed)
        (seen,) = db.execute("SELECT coalesce(max(seq), 0) FROM ledger").fetchone()
        _move(db, "ledger", f"reason, at, {ANSWER_COLUMNS}", self._given_up)
        for reason, count in db.execute(
            "SELECT reason, count(*) FROM ledger WHERE seq > ? GROUP BY reason", (seen,)
        ):
            totals[f"lost:{reason}"] += count
        db.executemany("INSERT OR REPLACE INTO cursors VALUES (?, ?)", self._cursors)
        totals.update({"recorded": recorded, "answered": accepted + closed})
        changed = {name: count for name, count in totals.items() if count}
        _count(db, changed)
        return changed


def _count(db: sqlite3.Connection, changed: Mapping[str, int]) -> None:
    db.executemany(
        "INSERT INTO counts VALUES (?, ?) "
        "ON CONFLICT (name) DO UPDATE SET count = count + excluded.count",
        changed.items(),
    )


def _insert(db: sqlite3.Connection, into: str, rows: list[Row]) -> int:
    if not rows:
        return 0
    before = db.total_changes
    db.executemany(f"{into} VALUES ({_marks(len(rows[0]))}) {_ONCE}", rows)
    return db.total_changes - before


def _move(db: sqlite3.Connection, table: str, columns: str, rows: list[Row]) -> int:
    """Insert each row whose id (once more in its last place) is in the outbox; empty it there."""
    if not rows:
        return 0
    before = db.total_changes
    db.executemany(
        f"INSERT INTO {table} ({columns}) SELECT {_marks(len(rows[0]) - 1)} "  # noqa: S608
        f"WHERE EXISTS (SELECT 1 FROM outbox WHERE id = ?) {_ONCE}",
        rows,
    )
    moved = db.total_changes - before
    db.executemany("DELETE FROM outbox WHERE id = ?", [row[-1:] for row in rows])
    return moved


def _trim(db: sqlite3.Connection, table: str, rows_max: int) -> None:
    db.execute(
        f"DELETE FROM {table} WHERE seq <= (SELECT max(seq) FROM {table}) - ?",  # noqa: S608
        (rows_max,),
    )


def _marks(count: int) -> str:
    return ", ".join("?" * count)
