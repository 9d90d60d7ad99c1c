"""The jobs' database: SQLite by default, PostgreSQL by its URL; several processes share one.

Synchronous; threads belong to the callers. Changes are functions of a `Transaction`, and go in
groups: one commit, and one wait for the disk, for all that came while the last one was written.
Each stands or fails alone, by a savepoint.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, func, select, text
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.schema import CreateIndex, CreateTable

from cloud.jobs.schema import jobs
from cloud.store.first_open import alone
from shared.errors import Malformed, Unavailable

T = TypeVar("T")
_LOCK = 0x6879_6A6F_6273  # of PostgreSQL's advisory locks: "hyjobs"
_WAL_BYTES_KEPT = 64 * 1024**2


@dataclass(slots=True)
class Size:
    jobs: int
    bytes: int


class Transaction:
    """One commit's connection, and how much is stored, counted at most once while it stays true."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._sizes: dict[str | None, Size] = {}
        self._touched = False

    def begin(self) -> None:
        """Say that the next change starts."""
        self._touched = False

    def undone(self) -> None:
        """Say that it was rolled back. A refusal touched nothing: a full store counts no more often."""
        if self._touched:
            self._sizes.clear()

    def size(self, caller: str | None = None) -> Size:
        """Jobs and bytes of one caller, or of all."""
        if (known := self._sizes.get(caller)) is not None:
            return known
        query = select(func.count(), func.coalesce(func.sum(jobs.c.row_bytes), 0))
        if caller is not None:
            query = query.where(jobs.c.caller == caller)
        count, total = self.connection.execute(query).one()
        size = self._sizes[caller] = Size(count, int(total))
        return size

    def grew(self, caller: str, row_bytes: int) -> None:
        """Say that a job was inserted."""
        self._touched = True
        for key in (None, caller):
            if (size := self._sizes.get(key)) is not None:
                size.jobs, size.bytes = size.jobs + 1, size.bytes + row_bytes

    def changed(self) -> None:
        """Say that something else happened to the sizes."""
        self._touched = True
        self._sizes.clear()


Change = Callable[[Transaction], T]


class JobDatabase:
    """Raises `Unavailable` while the database is away."""

    def __init__(self, url: str) -> None:
        """Raises `Malformed` for a URL that is none."""
        try:
            self._engine = create_engine(
                url, pool_pre_ping=not url.startswith("sqlite"),
                hide_parameters=True,  # one of them is a whole request, and errors are logged
            )  # fmt: skip
        except (ArgumentError, NoSuchModuleError, ImportError) as error:
            raise Malformed(f"jobs.url: {error}") from error
        if self._engine.dialect.name == "sqlite":
            _tune_sqlite(self._engine)
        self._writing = self._engine.execution_options(writes=True)

    def open(self) -> None:
        """Create what is missing. No caller reads what this raises, so it names the URL."""
        with (
            self._translated(f"jobs.url {self._engine.url!r}"),
            self._writing.begin() as connection,
        ):
            _alone(connection)
            # not `create_all`: two processes that start at once would both miss the table
            connection.execute(CreateTable(jobs, if_not_exists=True))
            for index in sorted(jobs.indexes, key=lambda index: str(index.name)):
                connection.execute(CreateIndex(index, if_not_exists=True))

    def write(self, changes: Sequence[Change[Any]]) -> list[Any]:
        """Make each change, in order, and commit once: its result, or the exception it ended in.

        On a disk that holds its promises, what this returned stands a power cut.
        """
        outcomes: list[Any] = []
        with self._translated(), self._writing.begin() as connection:
            _alone(connection)
            transaction = Transaction(connection)
            for change in changes:
                transaction.begin()
                try:
                    with connection.begin_nested():
                        outcomes.append(change(transaction))
                except SQLAlchemyError as error:
                    transaction.undone()
                    outcomes.append(_away(error))
                except Exception as error:  # noqa: BLE001  whoever asked for the change is told
                    transaction.undone()
                    outcomes.append(error)
        return outcomes

    def read(self, look: Callable[[Connection], T]) -> T:
        """One consistent view."""
        with self._translated(), self._engine.begin() as connection:
            return look(connection)

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def _translated(self, where: str = "the jobs' database") -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            raise _away(error, where) from error


def _away(error: SQLAlchemyError, where: str = "the jobs' database") -> Unavailable:
    """In one line without statement, parameters and URL: callers read it."""
    words = str(getattr(error, "orig", None) or type(error).__name__).partition("\n")[0]
    away = Unavailable(f"{where}: {words[:200]}")
    away.__cause__ = error
    return away


def _alone(connection: Connection) -> None:
    """One writer at a time, as SQLite has it: the bounds and idempotency keys count on it."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})


def _tune_sqlite(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def _set(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None  # transactions begin below, not where sqlite3 thinks
        connection.execute("PRAGMA busy_timeout=5000")  # milliseconds; first, for what follows
        with alone(engine.url.database):
            connection.execute("PRAGMA journal_mode=WAL")  # readers never wait for the writer
        connection.execute("PRAGMA synchronous=FULL")  # a commit stands a power cut
        connection.execute(f"PRAGMA journal_size_limit={_WAL_BYTES_KEPT}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # a transaction that reads first and then writes is refused at once, whatever its timeout
        writes = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
