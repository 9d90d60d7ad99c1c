"""A database of which several processes may be at once: SQLite by default, PostgreSQL by its URL.

Synchronous and thread-safe. One writer at a time, over all processes: what a change looked at is
still so when it is written.
"""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import ClassVar, Final, TypeVar

from sqlalchemy import Connection

from cloud.store.engine import open_engine, reading, translated, write_alone, writing
from cloud.store.migrating import Migrations
from cloud.store.owning import owned

T = TypeVar("T")
_WAIT_S: Final = 10
"""For another process's commit, and for a connection. A database that is slower is away."""


class OneWriter:
    """Raises `Unavailable` while the database is away."""

    SETTING: ClassVar[str]
    """Whose URL it is, as people write it."""
    WHAT: ClassVar[str]
    """What callers of an API are told is away, without its URL."""
    OWNER: ClassVar[str]
    """The process that `owned` is for."""
    MIGRATIONS: ClassVar[Migrations]
    LOCK: ClassVar[int]
    """Of PostgreSQL's advisory locks: this one, and the next for the owner."""

    def __init__(self, url: str, server_silent_s: float | None = None) -> None:
        """`server_silent_s`: see `open_engine`; not for whoever `owned` it.

        Raises `Malformed` for a URL that is none.
        """
        self._engine = open_engine(
            url, self.SETTING, file_wait_s=_WAIT_S, server_wait_s=_WAIT_S,
            server_silent_s=server_silent_s,
        )  # fmt: skip
        self._writing, self._reading = writing(self._engine), reading(self._engine)
        self._turn = threading.Lock()
        """Threads of this process queue here and not at the database, which gives up after a time."""

    def open(self, *more: Migrations) -> None:
        """Create or migrate the tables, and those of `more`; several processes may do so at once.

        Raises `Malformed` for a database of a newer program, `Unavailable`. No caller of the API
        reads what this raises, so it names the URL.
        """
        where = self._named()
        with self._translated(where), self._writing.begin() as connection:
            write_alone(connection, self.LOCK)
            for migrations in (self.MIGRATIONS, *more):
                migrations.apply(connection, where)

    def write(self, change: Callable[[Connection], T]) -> T:
        """Make the change and commit it; what it raises is raised, and then nothing is changed.

        On a disk that holds its promises, what this returned stands a power cut.
        """
        with self._turn, self._translated(self.WHAT), self._writing.begin() as connection:
            write_alone(connection, self.LOCK)
            return change(connection)

    def read(self, look: Callable[[Connection], T]) -> T:
        """One consistent view."""
        with self._translated(self.WHAT), self._reading.begin() as connection:
            return look(connection)

    def owned(self) -> AbstractContextManager[None]:
        """By the one process that drives what is in it: two would undo each other's steps. It ends
        with the process, however that ends. Others that read or write do not ask.

        Raises `InUse`, `Unavailable`.
        """
        return owned(self._engine, self.LOCK + 1, self._named(), self.OWNER)

    def close(self) -> None:
        self._engine.dispose()

    def _translated(self, where: str) -> AbstractContextManager[None]:
        return translated(where)

    def _named(self) -> str:
        return f"{self.SETTING} {self._engine.url!r}"
