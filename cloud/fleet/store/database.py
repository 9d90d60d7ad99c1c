"""The fleet's database: SQLite by default, PostgreSQL by its URL; several processes may share one.

Synchronous and thread-safe. One writer at a time, over all processes: what a change looked at is
still so when it is written. Callers gather changes (`Fleet.record`, `Fleet.save_rollouts`), so a
commit is for many of them.
"""

import fcntl
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.exc import ArgumentError, IntegrityError, NoSuchModuleError, SQLAlchemyError

from cloud.fleet.store.migrate import migrate
from cloud.store.first_open import alone
from shared.errors import Conflict, InUse, Malformed, Unavailable

T = TypeVar("T")
_LOCK: Final = 0x6879_666C_6565  # of PostgreSQL's advisory locks: "hyflee"
_OWNS: Final = _LOCK + 1
_WAL_BYTES_KEPT: Final = 64 * 1024**2
_WAIT_S: Final = 10
"""For another process's commit, and for a connection. A database that is slower is away."""


class FleetDatabase:
    """Raises `Unavailable` while the database is away."""

    def __init__(self, url: str) -> None:
        """Raises `Malformed` for a URL that is none."""
        try:
            self._engine = create_engine(
                url, pool_pre_ping=not url.startswith("sqlite"), hide_parameters=True,
                connect_args={} if url.startswith("sqlite") else {"connect_timeout": _WAIT_S},
            )  # fmt: skip
        except (ArgumentError, NoSuchModuleError, ImportError) as error:
            raise Malformed(f"devices.url: {error}") from error
        if self._engine.dialect.name == "sqlite":
            _tune_sqlite(self._engine)
            self._reading = self._engine
        else:
            _tune_postgresql(self._engine)
            self._reading = self._engine.execution_options(isolation_level="REPEATABLE READ")
        self._writing = self._engine.execution_options(writes=True)
        self._turn = threading.Lock()
        """Threads of this process queue here and not at the database, which gives up after a time."""

    def open(self) -> None:
        """Create or migrate the tables; several processes may do so at once.

        Raises `Malformed` for a database of a newer program, `Unavailable`. No caller of the API
        reads what this raises, so it names the URL.
        """
        where = f"devices.url {self._engine.url!r}"
        with _translated(where), self._writing.begin() as connection:
            _alone(connection)
            migrate(connection, where)

    def write(self, change: Callable[[Connection], T]) -> T:
        """Make the change and commit it; what it raises is raised, and then nothing is changed.

        On a disk that holds its promises, what this returned stands a power cut. Raises `Conflict`
        where a constraint of the tables says no.
        """
        with self._turn, _translated(), self._writing.begin() as connection:
            _alone(connection)
            return change(connection)

    def read(self, look: Callable[[Connection], T]) -> T:
        """One consistent view."""
        with _translated(), self._reading.begin() as connection:
            return look(connection)

    @contextmanager
    def owned(self) -> Iterator[None]:
        """By the one process that moves its rollouts: two would undo each other's steps. It ends
        with the process, however that ends.

        Raises `InUse`, `Unavailable`.
        """
        url = self._engine.url
        if url.get_backend_name() != "postgresql":
            with _locked(f"{url.database}.owner"):
                yield
            return
        with _translated():
            connection = self._engine.connect()
            connection.detach()  # not of the pool: its session has the lock
        try:
            with _translated():
                owns = connection.execute(
                    text("SELECT pg_try_advisory_lock(:lock)"), {"lock": _OWNS}
                )
                if not owns.scalar():
                    raise InUse(
                        f"devices.url {url!r}: another fleet process uses it; end that first"
                    )
                connection.commit()
            yield
        finally:
            connection.close()

    def close(self) -> None:
        self._engine.dispose()


@contextmanager
def _translated(where: str = "the fleet's database") -> Iterator[None]:
    """Into one line without statement, parameters and URL: callers read it."""
    try:
        yield
    except IntegrityError as error:
        raise Conflict(f"{where} does not take it: {_words(error)}") from error
    except SQLAlchemyError as error:
        raise Unavailable(f"{where}: {_words(error)}") from error


def _words(error: SQLAlchemyError) -> str:
    return str(getattr(error, "orig", None) or type(error).__name__).partition("\n")[0][:200]


@contextmanager
def _locked(path: str) -> Iterator[None]:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InUse(f"{path}: another fleet process uses its database; end it first") from error
        yield
    finally:
        os.close(handle)


def _alone(connection: Connection) -> None:
    """One writer at a time, as SQLite has it."""
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
