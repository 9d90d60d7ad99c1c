"""Engines for the cloud's databases, tuned alike, and what their errors say.

SQLite by default, PostgreSQL by its URL; several processes may share one. Synchronous.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.exc import ArgumentError, DataError, NoSuchModuleError, SQLAlchemyError

from cloud.store.first_open import alone
from shared.errors import Malformed, Unavailable

_WAL_BYTES_KEPT: Final = 64 * 1024**2


def open_engine(
    url: str,
    setting: str,
    *,
    file_wait_s: int,
    server_wait_s: int | None = None,
    server_silent_s: float | None = None,
) -> Engine:
    """Connects to nothing yet. `file_wait_s` is for another process's commit in SQLite,
    `server_wait_s` for PostgreSQL's locks and for a connection; without it, they wait on. A machine
    that acknowledges nothing for `server_silent_s` is gone, whatever was asked of it: else a link that
    swallows everything is waited for as long as the kernel likes, which is hours. Not for a session
    that owns something: its server would let go later than this end.

    Raises `Malformed` for a URL that is none, by the setting's name.
    """
    settings: dict[str, int] = {} if server_silent_s is None else _silent(server_silent_s)
    if server_wait_s is not None:
        settings["connect_timeout"] = server_wait_s
    try:
        engine = create_engine(
            url, pool_pre_ping=not url.startswith("sqlite"),
            hide_parameters=True,  # some are whole requests or payloads, and errors are logged
            connect_args={} if url.startswith("sqlite") else settings,
        )  # fmt: skip
    except (ArgumentError, NoSuchModuleError, ImportError) as error:
        raise Malformed(f"{setting}: {error}") from error
    if engine.dialect.name == "sqlite":
        _tune_sqlite(engine, file_wait_s)
    elif server_wait_s is not None:
        _bound_locks(engine, server_wait_s)
    return engine


def writing(engine: Engine) -> Engine:
    """The view of the engine that writes. From here on SQLite's transactions, of every view, begin
    where SQLAlchemy says, and those that write wait for their turn at once.
    """
    if engine.dialect.name == "sqlite":
        _begin_in_turn(engine)
    return engine.execution_options(writes=True)


def reading(engine: Engine) -> Engine:
    """The view of the engine whose transactions see one consistent state."""
    if engine.dialect.name == "sqlite":
        return engine
    return engine.execution_options(isolation_level="REPEATABLE READ")


def write_alone(connection: Connection, lock: int) -> None:
    """One writer at a time, as SQLite has it: what was looked at is still so when it is written.

    `lock` is one of PostgreSQL's advisory locks; it ends with the transaction.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": lock})


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Raises `Malformed` for a value that the database will never take (a NUL or a lone
    surrogate in a text, a number over its column's), `Unavailable` for whatever else SQLAlchemy raises.
    """
    try:
        yield
    except (OverflowError, UnicodeEncodeError) as error:  # of a driver, passed on by SQLAlchemy
        raise Malformed(f"{where}: {error}") from error
    except SQLAlchemyError as error:
        kind = Malformed if isinstance(error, DataError) else Unavailable
        raise kind(f"{where}: {words(error)}") from error


def words(error: SQLAlchemyError) -> str:
    """One line without statement, parameters and URL: callers read it."""
    return str(getattr(error, "orig", None) or type(error).__name__).partition("\n")[0][:200]


def _silent(silent_s: float) -> dict[str, int]:
    """Of libpq ("Parameter Key Words"). Keepalives find out where an answer is waited for; the other one,
    in milliseconds, where something was sent that nobody acknowledges, and ends both (tcp(7)).
    """
    between_s = max(1, int(silent_s / 3))
    return {
        "keepalives": 1, "keepalives_idle": between_s, "keepalives_interval": between_s,
        "keepalives_count": 2, "tcp_user_timeout": max(1, int(silent_s * 1000)),
    }  # fmt: skip


def _bound_locks(engine: Engine, wait_s: int) -> None:
    @event.listens_for(engine, "connect")
    def _set(connection: Any, _record: object) -> None:
        connection.execute(f"SET lock_timeout = '{wait_s}s'")
        connection.commit()


def _tune_sqlite(engine: Engine, wait_s: int) -> None:
    @event.listens_for(engine, "connect")
    def _set(connection: sqlite3.Connection, _record: object) -> None:
        connection.execute(f"PRAGMA busy_timeout={wait_s * 1000}")  # first, for what follows
        with alone(engine.url.database):
            connection.execute("PRAGMA journal_mode=WAL")  # readers never wait for the writer
        connection.execute("PRAGMA synchronous=FULL")  # a commit stands a power cut


def _begin_in_turn(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def _set(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None  # transactions begin below, not where sqlite3 thinks
        connection.execute(f"PRAGMA journal_size_limit={_WAL_BYTES_KEPT}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # a transaction that reads first and then writes is refused at once, whatever its timeout
        writes = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
