"""The fleet's database: SQLite by default, PostgreSQL by its URL; several processes may share one.

Synchronous and thread-safe. One writer at a time, over all processes: what a change looked at is
still so when it is written. Callers gather changes (`Fleet.record`, `Fleet.save_rollouts`), so a
commit is for many of them.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from cloud.store.engine import open_engine, reading, translated, words, write_alone, writing
from cloud.store.migrating import Migrations
from cloud.store.owning import owned
from shared.errors import Conflict

T = TypeVar("T")
MIGRATIONS: Final = Migrations("cloud.fleet.store", "fleet_schema")
_LOCK: Final = 0x6879_666C_6565  # of PostgreSQL's advisory locks: "hyflee"
_OWNS: Final = _LOCK + 1
_WAIT_S: Final = 10
"""For another process's commit, and for a connection. A database that is slower is away."""


class FleetDatabase:
    """Raises `Unavailable` while the database is away."""

    def __init__(self, url: str) -> None:
        """Raises `Malformed` for a URL that is none."""
        self._engine = open_engine(url, "devices.url", file_wait_s=_WAIT_S, server_wait_s=_WAIT_S)
        self._writing, self._reading = writing(self._engine), reading(self._engine)
        self._turn = threading.Lock()
        """Threads of this process queue here and not at the database, which gives up after a time."""

    def open(self) -> None:
        """Create or migrate the tables; several processes may do so at once.

        Raises `Malformed` for a database of a newer program, `Unavailable`. No caller of the API
        reads what this raises, so it names the URL.
        """
        where = f"devices.url {self._engine.url!r}"
        with _translated(where), self._writing.begin() as connection:
            write_alone(connection, _LOCK)
            MIGRATIONS.apply(connection, where)

    def write(self, change: Callable[[Connection], T]) -> T:
        """Make the change and commit it; what it raises is raised, and then nothing is changed.

        On a disk that holds its promises, what this returned stands a power cut. Raises `Conflict`
        where a constraint of the tables says no.
        """
        with self._turn, _translated(), self._writing.begin() as connection:
            write_alone(connection, _LOCK)
            return change(connection)

    def read(self, look: Callable[[Connection], T]) -> T:
        """One consistent view."""
        with _translated(), self._reading.begin() as connection:
            return look(connection)

    def owned(self) -> AbstractContextManager[None]:
        """By the one process that moves its rollouts: two would undo each other's steps. It ends
        with the process, however that ends.

        Raises `InUse`, `Unavailable`.
        """
        where = f"devices.url {self._engine.url!r}"
        return owned(self._engine, _OWNS, where, "fleet process")

    def close(self) -> None:
        self._engine.dispose()


@contextmanager
def _translated(where: str = "the fleet's database") -> Iterator[None]:
    with translated(where):
        try:
            yield
        except IntegrityError as error:
            raise Conflict(f"{where} does not take it: {words(error)}") from error
