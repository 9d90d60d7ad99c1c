"""Writing many rows at once, alike on SQLite and PostgreSQL."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Table, bindparam
from sqlalchemy.dialects import postgresql, sqlite

T = TypeVar("T")
_INSERTS: Final[Mapping[str, Any]] = MappingProxyType({
    "sqlite": sqlite.insert, "postgresql": postgresql.insert,
})  # fmt: skip
CHUNK: Final = 500
"""Values in one list of a query: both databases keep its plan."""


def upsert(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Each in the place of the one of its primary key; all have the same columns."""
    if not rows:
        return
    keys = [column.name for column in table.primary_key.columns]
    new = _INSERTS[connection.dialect.name](table)
    values = {name: new.excluded[name] for name in rows[0] if name not in keys}
    connection.execute(
        new.on_conflict_do_update(index_elements=keys, set_=values), [dict(row) for row in rows]
    )


def update(
    connection: Connection, table: Table, key: Sequence[str], rows: Sequence[Mapping[str, Any]]
) -> None:
    """Those that are there, by the columns of `key`; all have the same columns."""
    if not rows:
        return
    statement = table.update().where(*(table.c[name] == bindparam(f"key_{name}") for name in key))
    values: dict[str, Any] = {name: bindparam(name) for name in rows[0] if name not in key}
    connection.execute(
        statement.values(**values),
        [{f"key_{name}" if name in key else name: row[name] for name in row} for row in rows],
    )


def chunks(values: Iterable[T]) -> Iterator[list[T]]:
    chunk: list[T] = []
    for value in values:
        chunk.append(value)
        if len(chunk) == CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
