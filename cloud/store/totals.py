"""How much each device has in the feedback table.

Kept by whoever inserts or deletes, in the same transaction, so that it is true for every process
that shares the database. The line of all devices comes first in each change: PostgreSQL's writers
wait for each other there, and so never for each other's devices crosswise.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from cloud.store.schema import devices

ALL: Final = ""
"""In the place of a device."""
_MOST: Final = 16
_of = devices.c
OF_ALL: Final = sa.select(_of.row_count, _of.byte_count).where(_of.device == ALL)
"""Rows and bytes of all devices."""


@dataclass(slots=True)
class Change:
    """Rows and bytes by device that were added, less those that were taken."""

    rows: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)

    def count(self, device: str, row_bytes: int, rows: int = 1) -> None:
        """One row more, or with -1 one less."""
        for name in (device, ALL):
            self.rows[name] += rows
            self.bytes[name] += rows * row_bytes


def locked(connection: sa.Connection) -> tuple[int, int]:
    """Rows and bytes of all devices. Other writers stay out until the transaction ends; SQLite's do
    not come in anyway.
    """
    query = OF_ALL
    if connection.dialect.name == "postgresql":
        query = query.with_for_update()
    found = connection.execute(query).one()
    return found[0], found[1]


def apply(connection: sa.Connection, change: Change) -> None:
    """Call it once at the end of a transaction that inserted or deleted, after `locked`."""
    names = sorted(name for name in change.rows if change.rows[name] or change.bytes[name])
    if not names:
        return
    make = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    statement = make(devices)
    statement = statement.on_conflict_do_update(
        index_elements=[_of.device],
        set_={
            "row_count": _of.row_count + statement.excluded.row_count,
            "byte_count": _of.byte_count + statement.excluded.byte_count,
        },
    )
    connection.execute(statement, [
        {"device": name, "row_count": change.rows[name], "byte_count": change.bytes[name]}
        for name in names
    ])  # fmt: skip
    if any(change.rows[name] < 0 for name in names):
        connection.execute(sa.delete(devices).where(_of.row_count <= 0, _of.device != ALL))


def most(connection: sa.Connection, *, by_rows: bool) -> Sequence[tuple[str, int]]:
    """The devices that have most rows, or bytes, the biggest first."""
    amount = _of.row_count if by_rows else _of.byte_count
    query = sa.select(_of.device, amount).where(_of.device != ALL)
    found = connection.execute(query.order_by(amount.desc(), _of.device).limit(_MOST))
    return [(device, has) for device, has in found]
