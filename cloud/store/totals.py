"""How much each device has in the feedback table, and who goes when it is too much.

Kept by whoever inserts or deletes, in the same transaction, so that it is true for every process
that shares the database. The line of all devices comes first in each change: PostgreSQL's writers
wait for each other there, and so never for each other's devices crosswise.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from cloud.store.schema import devices, feedback, labels

ALL: Final = ""
"""In the place of a device."""
_EVICT_ROWS: Final = 512  # looked at together: a statement of some milliseconds
_of = devices.c


@dataclass(frozen=True, slots=True)
class Bounds:
    rows_max: int
    bytes_max: int
    device_rows_share_max: float = 0.1
    """Of rows and of bytes: what a device has above it goes first, when something must."""


@dataclass(slots=True)
class Change:
    """Rows and bytes by device, to be added or taken."""

    rows: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)

    def count(self, found: Iterable[tuple[str, int]]) -> None:
        """Each a row's device and its bytes."""
        for device, size in found:
            for name in (device, ALL):
                self.rows[name] += 1
                self.bytes[name] += size


def add(connection: sa.Connection, change: Change) -> None:
    """Say that rows were inserted."""
    make = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    statement = make(devices)
    statement = statement.on_conflict_do_update(
        index_elements=[_of.device],
        set_={
            "row_count": _of.row_count + statement.excluded.row_count,
            "byte_count": _of.byte_count + statement.excluded.byte_count,
        },
    )
    values = [
        {"device": name, "row_count": change.rows[name], "byte_count": change.bytes[name]}
        for name in sorted(change.rows)
    ]
    if values:
        connection.execute(statement, values)


def take(connection: sa.Connection, change: Change) -> None:
    """Say that rows were deleted."""
    if not change.rows:
        return
    values = [
        {"name": name, "fewer": change.rows[name], "less": change.bytes[name]}
        for name in sorted(change.rows)
    ]
    connection.execute(
        sa.update(devices)
        .where(_of.device == sa.bindparam("name"))
        .values(
            row_count=_of.row_count - sa.bindparam("fewer"),
            byte_count=_of.byte_count - sa.bindparam("less"),
        ),
        values,
    )
    connection.execute(sa.delete(devices).where(_of.row_count <= 0, _of.device != ALL))


def lock(connection: sa.Connection) -> None:
    """Keep other writers out until the transaction ends; SQLite's do not come in anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(_of.device).where(_of.device == ALL).with_for_update())


def total(connection: sa.Connection) -> tuple[int, int]:
    """Rows and bytes of all devices."""
    found = connection.execute(
        sa.select(_of.row_count, _of.byte_count).where(_of.device == ALL)
    ).one_or_none()
    return (0, 0) if found is None else (found[0], found[1])


def delete(connection: sa.Connection, rows: Sequence[tuple[int, str, int]]) -> Change:
    """Samples with what people said of them. Each row: its number, device and bytes."""
    numbers = [seq for seq, _, _ in rows]
    connection.execute(sa.delete(labels).where(labels.c.sample_seq.in_(numbers)))
    connection.execute(sa.delete(feedback).where(feedback.c.seq.in_(numbers)))
    change = Change()
    change.count((device, size) for _, device, size in rows)
    take(connection, change)
    return change


def evict(connection: sa.Connection, bounds: Bounds) -> int:
    """Delete what is over the bounds; how many rows that was. Call it after `add` or `lock`.

    The device that has most goes first, down to its share, then the oldest of all. So one that
    floods the store loses its own samples, not everybody else's.
    """
    evicted = 0
    while True:
        rows, size = total(connection)
        if rows <= bounds.rows_max and size <= bounds.bytes_max:
            return evicted
        device, rows_over = _most(connection, bounds, by_rows=rows > bounds.rows_max)
        oldest = (
            sa.select(feedback.c.seq, feedback.c.device, feedback.c.row_bytes)
            .order_by(feedback.c.seq)
            .limit(min(_EVICT_ROWS, rows_over))
        )
        if device:
            oldest = oldest.where(feedback.c.device == device)
        going: list[tuple[int, str, int]] = []
        for seq, name, row_bytes in connection.execute(oldest):
            if rows <= bounds.rows_max and size <= bounds.bytes_max:
                break
            going.append((seq, name, row_bytes))
            rows, size = rows - 1, size - row_bytes
        if not going:
            return evicted
        delete(connection, going)
        evicted += len(going)


def _most(connection: sa.Connection, bounds: Bounds, *, by_rows: bool) -> tuple[str, int]:
    """The device that is furthest above its share, and by how many rows at most; `ALL` for none."""
    amount, most = (
        (_of.row_count, bounds.rows_max) if by_rows else (_of.byte_count, bounds.bytes_max)
    )
    allowed = int(most * bounds.device_rows_share_max)
    found = connection.execute(
        sa.select(_of.device, amount).order_by(amount.desc()).limit(2)  # one is of them all
    ).all()
    for device, has in found:
        if device != ALL and has > allowed:
            return device, (has - allowed if by_rows else 1)
    return ALL, _EVICT_ROWS
