"""Of the processes that share a database, the one that owns it: two that drive the same things would do
each step twice, or undo each other's.
"""

import fcntl
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

from cloud.store.engine import translated
from shared.errors import InUse

log = logging.getLogger(__name__)
_LET_GO_S: Final = 5.0


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
    owns = False
    try:
        with translated(where):
            asked = connection.execute(text("SELECT pg_try_advisory_lock(:lock)"), {"lock": lock})
            found = bool(asked.scalar())
            connection.commit()
            owns = found
    finally:
        if not owns:
            connection.close()
    if not owns:
        raise InUse(f"{where}: another {process} uses it; end that first")
    try:
        yield
    finally:
        _let_go(connection, lock)


def _let_go(connection: Connection, lock: int) -> None:
    """Now: a session ends some moments after its connection. A database that hangs is not waited for any
    longer than `_LET_GO_S`: then the lock goes with the process.
    """

    def unlock() -> None:
        try:
            connection.execute(text("SELECT pg_advisory_unlock(:lock)"), {"lock": lock})
            connection.commit()
        except DBAPIError as error:  # the session is gone, and the lock with it
            log.warning("lock_went_with_its_session", extra={"why": str(error.orig)[:200]})
        finally:
            connection.close()

    unlocking = threading.Thread(target=unlock, name="unlock", daemon=True)
    unlocking.start()
    unlocking.join(_LET_GO_S)
    if unlocking.is_alive():
        log.warning("lock_not_let_go", extra={"why": f"no answer for {_LET_GO_S:g} s"})


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
