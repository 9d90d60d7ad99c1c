"""Opening one SQLite file from several processes at once."""

import fcntl
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def alone(database: str | None) -> Iterator[None]:
    """One process at a time: SQLite refuses a change of journal mode at once, whatever its timeout.

    Raises `sqlite3.OperationalError` where the lock's file cannot be opened.
    """
    if not database or database == ":memory:":
        yield
        return
    try:
        file = Path(f"{database}.lock").open("a")  # noqa: SIM115  closed below
    except OSError as error:
        raise sqlite3.OperationalError(str(error)) from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
