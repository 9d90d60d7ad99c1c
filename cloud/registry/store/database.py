"""The registry's database: SQLite by default, PostgreSQL by its URL; several processes share one.

Synchronous; threads belong to the callers. Writes of one process that come at once go in groups:
one commit, and one wait for the disk, for all that came while the last one was written. Each stands
or fails alone, by a savepoint.
"""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from cloud.registry.store.migrate import migrate
from cloud.store.first_open import alone
from shared.errors import Malformed, Unavailable

T = TypeVar("T")
_LOCK = 0x6879_7265_6773  # of PostgreSQL's advisory locks: "hyregs"
_WAL_BYTES_KEPT = 64 * 1024**2
_GROUP_MAX = 64
_WAIT_S = 10
"""For another process's commit, and for a connection. A registry that is slower is away."""


class _Write(Generic[T]):
    """One caller's change, and what came of it."""

    def __init__(self, change: Callable[[Connection], T]) -> None:
        self._change = change
        self._outcome: T | None = None
        self._error: Exception | None = None
        self.done = False

    def make(
        self, connection: Connection, begin: Callable[[], AbstractContextManager[Any]]
    ) -> None:
        try:
            with begin():
                self._outcome = self._change(connection)
        except SQLAlchemyError as error:
            self._error = _away(error)
        except Exception as error:  # noqa: BLE001  whoever asked for the change is told
            self._error = error

    def lost(self, error: Exception) -> None:
        """Say that nothing was committed. A refusal stays one."""
        self._error = self._error or error

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._outcome  # type: ignore[return-value]  # T may be None


class RegistryDatabase:
    """Raises `Unavailable` while the database is away."""

    def __init__(self, url: str) -> None:
        """Raises `Malformed` for a URL that is none."""
        try:
            self._engine = create_engine(
                url, pool_pre_ping=not url.startswith("sqlite"), hide_parameters=True,
                connect_args={} if url.startswith("sqlite") else {"connect_timeout": _WAIT_S},
            )  # fmt: skip
        except (ArgumentError, NoSuchModuleError, ImportError) as error:
            raise Malformed(f"catalog.url: {error}") from error
        if self._engine.dialect.name == "sqlite":
            _tune_sqlite(self._engine)
            self._reading = self._engine
        else:
            _tune_postgresql(self._engine)
            self._reading = self._engine.execution_options(isolation_level="REPEATABLE READ")
        self._writing = self._engine.execution_options(writes=True)
        self._guard = threading.Lock()  # of `_waiting`
        self._turn = threading.Lock()  # one commit at a time
        self._waiting: list[_Write[Any]] = []

    def open(self) -> None:
        """Create or migrate the tables; several processes may do so at once.

        Raises `Malformed` for a database of a newer program, `Unavailable`. No caller of the API
        reads what this raises, so it names the URL.
        """
        where = f"catalog.url {self._engine.url!r}"
        with _translated(where), self._writing.begin() as connection:
            _alone(connection)
            migrate(connection, where)

    def write(self, change: Callable[[Connection], T]) -> T:
        """Make the change and commit it; what it raises is raised, and then nothing is changed.

        The connection is the only one that writes. On a disk that holds its promises, what this
        returned stands a power cut.
        """
        mine = _Write(change)
        with self._guard:
            self._waiting.append(mine)
        with self._turn:
            while not mine.done:
                with self._guard:
                    group = self._waiting[:_GROUP_MAX]
                    del self._waiting[:_GROUP_MAX]
                self._commit(group)
        return mine.result()

    def _commit(self, group: list[_Write[Any]]) -> None:
        try:
            with _translated(), self._writing.begin() as connection:
                _alone(connection)
                if len(group) == 1:  # two words to the server less
                    group[0].make(connection, lambda: _whole(connection))
                else:
                    for write in group:
                        write.make(connection, connection.begin_nested)
        except Unavailable as error:
            for write in group:
                write.lost(error)
        finally:
            for write in group:
                write.done = True

    def read(self, look: Callable[[Connection], T]) -> T:
        """One consistent view."""
        with _translated(), self._reading.begin() as connection:
            return look(connection)

    def close(self) -> None:
        self._engine.dispose()


@contextmanager
def _whole(connection: Connection) -> Iterator[None]:
    """The transaction is the change's own: it goes with it."""
    try:
        yield
    except BaseException:
        connection.rollback()
        raise


@contextmanager
def _translated(where: str = "the registry's database") -> Iterator[None]:
    try:
        yield
    except SQLAlchemyError as error:
        raise _away(error, where) from error


def _away(error: SQLAlchemyError, where: str = "the registry's database") -> Unavailable:
    """In one line without statement, parameters and URL: callers read it."""
    words = str(getattr(error, "orig", None) or type(error).__name__).partition("\n")[0]
    away = Unavailable(f"{where}: {words[:200]}")
    away.__cause__ = error
    return away


def _alone(connection: Connection) -> None:
    """One writer at a time, as SQLite has it: what was looked at is still so when it is written."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})


def _tune_postgresql(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def _set(connection: Any, _record: object) -> None:
        connection.execute(f"SET lock_timeout = '{_WAIT_S}s'")
        connection.commit()


def _tune_sqlite(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def _set(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None  # transactions begin below, not where sqlite3 thinks
        connection.execute(f"PRAGMA busy_timeout={_WAIT_S * 1000}")  # first, for what follows
        with alone(engine.url.database):
            connection.execute("PRAGMA journal_mode=WAL")  # readers never wait for the writer
        connection.execute("PRAGMA synchronous=FULL")  # a commit stands a power cut
        connection.execute(f"PRAGMA journal_size_limit={_WAL_BYTES_KEPT}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # a transaction that reads first and then writes is refused at once, whatever its timeout
        writes = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
