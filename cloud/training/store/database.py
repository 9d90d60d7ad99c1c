"""The learning database: SQLite by default, PostgreSQL by its URL; several processes share one.

Synchronous and thread-safe. One writer at a time, over all processes: what a change looked at is
still so when it is written.
"""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final, TypeVar

from sqlalchemy import Connection

from cloud.store.engine import open_engine, reading, translated, write_alone, writing
from cloud.store.migrating import Migrations
from cloud.store.owning import owned

T = TypeVar("T")
MIGRATIONS: Final = Migrations("cloud.training.store", "training_schema")
_LOCK: Final = 0x6879_6C65_726E  # of PostgreSQL's advisory locks: "hylern"
_OWNS: Final = _LOCK + 1
_WAIT_S: Final = 10
"""For another process's commit, and for a connection. A database that is slower is away."""


class LearningDatabase:
    """Raises `Unavailable` while the database is away."""

    def __init__(self, url: str) -> None:
        """Raises `Malformed` for a URL that is none."""
        self._engine = open_engine(url, "training.url", file_wait_s=_WAIT_S, server_wait_s=_WAIT_S)
        self._writing, self._reading = writing(self._engine), reading(self._engine)
        self._turn = threading.Lock()
        """Threads of this process queue here and not at the database, which gives up after a time."""

    def open(self, *more: Migrations) -> None:
        """Create or migrate the tables, and those of `more`; several processes may do so at once.

        Raises `Malformed` for a database of a newer program, `Unavailable`. No caller of the API
        reads what this raises, so it names the URL.
        """
        where = f"training.url {self._engine.url!r}"
        with translated(where), self._writing.begin() as connection:
            write_alone(connection, _LOCK)
            for migrations in (MIGRATIONS, *more):
                migrations.apply(connection, where)

    def write(self, change: Callable[[Connection], T]) -> T:
        """Make the change and commit it; what it raises is raised, and then nothing is changed.

        On a disk that holds its promises, what this returned stands a power cut.
        """
        with self._turn, _translated(), self._writing.begin() as connection:
            write_alone(connection, _LOCK)
            return change(connection)

    def read(self, look: Callable[[Connection], T]) -> T:
        """One consistent view."""
        with _translated(), self._reading.begin() as connection:
            return look(connection)

    def owned(self) -> AbstractContextManager[None]:
        """By the one process that drives its loops, whatever its `state_dir`; workers do not ask.

        Raises `InUse`, `Unavailable`.
        """
        where = f"training.url {self._engine.url!r}"
        return owned(self._engine, _OWNS, where, "learning process")

    def close(self) -> None:
        self._engine.dispose()


def _translated() -> AbstractContextManager[None]:
    return translated("the learning database")
