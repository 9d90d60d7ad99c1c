"""Reads the journal's file on the event loop, beside the thread that writes it."""

import sqlite3
from pathlib import Path

from edge.journal import database
from edge.journal.rows import Row


class Reader:
    """Every error of SQLite leaves in words (`database.unusable`)."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db = database.connect(path)
        self._db.text_factory = _text
        self._db.execute("PRAGMA query_only = ON")

    def rows(self, query: str, *values: object) -> list[Row]:
        try:
            return self._db.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise database.unusable(self._path, error) from error

    def row(self, query: str, *values: object) -> Row | None:
        return next(iter(self.rows(query, *values)), None)

    def close(self) -> None:
        self._db.close()


def _text(stored: bytes) -> str:
    """One damaged character must not make its row unreadable."""
    return stored.decode("utf-8", "replace")
