"""Of the processes that share a database, the one that owns it: two that drive the same things would do
each step twice, or undo each other's.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine, text

from cloud.store.engine import translated
from shared.errors import InUse


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
        yield
    finally:
        connection.close()


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
