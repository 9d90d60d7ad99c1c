"""The registry's database: SQLite by default, PostgreSQL by its URL; several processes share one.

Synchronous; threads belong to the callers. Writes of one process that come at once go in groups:
one commit, and one wait for the disk, for all that came while the last one was written. Each stands
or fails alone, by a savepoint.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, Generic, TypeVar

from sqlalchemy import Connection

from cloud.store.engine import open_engine, reading, translated, write_alone, writing
from cloud.store.migrating import Migrations
from shared.errors import Malformed, Unavailable

T = TypeVar("T")
MIGRATIONS: Final = Migrations("cloud.registry.store", "registry_schema")
_WHERE = "the registry's database"
_LOCK = 0x6879_7265_6773  # of PostgreSQL's advisory locks: "hyregs"
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
            with translated(_WHERE), begin():
                self._outcome = self._change(connection)
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
        self._engine = open_engine(url, "catalog.url", file_wait_s=_WAIT_S, server_wait_s=_WAIT_S)
        self._writing, self._reading = writing(self._engine), reading(self._engine)
        self._guard = threading.Lock()  # of `_waiting`
        self._turn = threading.Lock()  # one commit at a time
        self._waiting: list[_Write[Any]] = []

    def open(self) -> None:
        """Create or migrate the tables; several processes may do so at once.

        Raises `Malformed` for a database of a newer program, `Unavailable`. No caller of the API
        reads what this raises, so it names the URL.
        """
        where = f"catalog.url {self._engine.url!r}"
        with translated(where), self._writing.begin() as connection:
            write_alone(connection, _LOCK)
            MIGRATIONS.apply(connection, where)

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
            with translated(_WHERE), self._writing.begin() as connection:
                write_alone(connection, _LOCK)
                if len(group) == 1:  # two words to the server less
                    group[0].make(connection, lambda: _whole(connection))
                else:
                    for write in group:
                        write.make(connection, connection.begin_nested)
        except (Malformed, Unavailable) as error:
            for write in group:
                write.lost(error)
        finally:
            for write in group:
                write.done = True

    def read(self, look: Callable[[Connection], T]) -> T:
        """One consistent view."""
        with translated(_WHERE), self._reading.begin() as connection:
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
