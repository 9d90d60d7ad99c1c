"""Of the processes that share a database, the one that owns it: two that drive the same things would do
each step twice, or undo each other's.
"""

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

from cloud.store.engine import translated
from shared.errors import InUse

log = logging.getLogger(__name__)


@contextmanager
def owned(engine: Engine, lock: int, where: str, process: str) -> Iterator[None]:
    """By one process; it ends with the process, however that ends.

    `lock`: one of PostgreSQL's advisory locks; SQLite has a file beside it. `where` and `process` are
    for people: "devices.url ...", "fleet process". Raises `InUse`, `Unavailable`.
    """
    url = engine.url
    if url.get_backend_name() != "postgresql":
        with _locked(f"{url.database}.owner", process):
            yield
        return
    with translated(where):
        connection = engine.connect()
        connection.detach()  # not of the pool: its session has the lock
    try:
        with translated(where):
            owns = connection.execute(text("SELECT pg_try_advisory_lock(:lock)"), {"lock": lock})
            if not owns.scalar():
                raise InUse(f"{where}: another {process} uses it; end that first")
            connection.commit()
        try:
            yield
        finally:
            _let_go(connection, lock)
    finally:
        connection.close()


def _let_go(connection: Connection, lock: int) -> None:
    """Now: a session ends some moments after its connection."""
    try:
        connection.execute(text("SELECT pg_advisory_unlock(:lock)"), {"lock": lock})
        connection.commit()
    except DBAPIError as error:  # the session is gone, and the lock with it
        log.warning("lock_went_with_its_session", extra={"why": str(error.orig)[:200]})


@contextmanager
def _locked(path: str, process: str) -> Iterator[None]:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InUse(f"{path}: another {process} uses its database; end it first") from error
        yield
    finally:
        os.close(handle)
