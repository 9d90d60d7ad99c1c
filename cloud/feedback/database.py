"""The feedback database as the learning process has it. Synchronous; threads belong to the callers."""

from collections.abc import Callable
from typing import Final, TypeVar

from sqlalchemy import Connection

from cloud.store.engine import open_engine, reading, translated, writing
from cloud.store.opening import migrate

T = TypeVar("T")
_SETTING: Final = "feedback.url"
_WHERE: Final = "feedback store"
_WAIT_S: Final = 10
"""For the worker's commits, and for a connection."""


class FeedbackDatabase:
    """Raises `Unavailable` while the database is away."""

    def __init__(self, url: str) -> None:
        """Raises `Malformed` for a URL that is none."""
        self._url = url
        self._engine = open_engine(url, _SETTING, file_wait_s=_WAIT_S, server_wait_s=_WAIT_S)
        self._writing, self._reading = writing(self._engine), reading(self._engine)

    def open(self) -> None:
        """Create or migrate the tables. Raises `Malformed` for those of a newer program."""
        migrate(self._url, _SETTING)

    def write(self, change: Callable[[Connection], T]) -> T:
        """In one transaction, which must be short: a worker waits to write."""
        with translated(_WHERE), self._writing.begin() as connection:
            return change(connection)

    def read(self, look: Callable[[Connection], T]) -> T:
        """One consistent view."""
        with translated(_WHERE), self._reading.begin() as connection:
            return look(connection)

    def close(self) -> None:
        self._engine.dispose()
