"""The jobs' database: SQLite by default, PostgreSQL by its URL; several processes share one.

Synchronous; threads belong to the callers. Changes are functions of a `Transaction`, and go in
groups: one commit, and one wait for the disk, for all that came while the last one was written.
Each stands or fails alone, by a savepoint.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Connection, func, select
from sqlalchemy.schema import CreateIndex, CreateTable

from cloud.jobs.schema import jobs
from cloud.store.engine import open_engine, translated, write_alone, writing

T = TypeVar("T")
_LOCK = 0x6879_6A6F_6273  # of PostgreSQL's advisory locks: "hyjobs"
_WAIT_S = 5  # for another process's commit
_WHERE = "the jobs' database"


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
        self._engine = open_engine(url, "jobs.url", file_wait_s=_WAIT_S)
        self._writing = writing(self._engine)

    def open(self) -> None:
        """Create what is missing. No caller reads what this raises, so it names the URL."""
        with translated(f"jobs.url {self._engine.url!r}"), self._writing.begin() as connection:
            write_alone(connection, _LOCK)
            # not `create_all`: two processes that start at once would both miss the table
            connection.execute(CreateTable(jobs, if_not_exists=True))
            for index in sorted(jobs.indexes, key=lambda index: str(index.name)):
                connection.execute(CreateIndex(index, if_not_exists=True))

    def write(self, changes: Sequence[Change[Any]]) -> list[Any]:
        """Make each change, in order, and commit once: its result, or the exception it ended in.

        On a disk that holds its promises, what this returned stands a power cut.
        """
        outcomes: list[Any] = []
        with translated(_WHERE), self._writing.begin() as connection:
            write_alone(connection, _LOCK)
            transaction = Transaction(connection)
            for change in changes:
                transaction.begin()
                try:
                    with translated(_WHERE), connection.begin_nested():
                        outcomes.append(change(transaction))
                except Exception as error:  # noqa: BLE001  whoever asked for the change is told
                    transaction.undone()
                    outcomes.append(error)
        return outcomes

    def read(self, look: Callable[[Connection], T]) -> T:
        """One consistent view."""
        with translated(_WHERE), self._engine.begin() as connection:
            return look(connection)

    def close(self) -> None:
        self._engine.dispose()
