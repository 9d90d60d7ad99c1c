"""The SQLite file `broker.db`: held by one broker, read once at its start, then written in batches.

Not for the event loop: every call reads or writes a disk. `committer` has the thread.
"""

import errno
import logging
import os
import sqlite3
import stat
from pathlib import Path
from typing import Final, Literal

from cloud.broker.session.records import (
    Batch,
    DeliveryRow,
    MessageRow,
    SessionRow,
    Snapshot,
    SubscriptionRow,
)
from cloud.broker.store import schema
from cloud.broker.store.consistency import consistent
from cloud.broker.store.statements import identifiers_of, steps
from shared.errors import HybridgeError, InUse, Malformed, Unavailable

log = logging.getLogger(__name__)

Synchronous = Literal["full", "normal", "off"]

_WAL_PAGES: Final = 4_000
"""Log pages (16 MB) before they are moved into the file: what was delivered by then never is."""
_WAL_BYTES_KEPT: Final = 16 * 1024 * 1024
"""What is left of a log that one long transaction made longer."""
_CACHE_KIB: Final = 16 * 1024
_SHRUNK_PAGES: Final = 16_384
"""64 MB: more than this free and less than this in use is worth a `VACUUM` at the start (0.3 s)."""
_NO_ROOM: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR})
_HELD: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_NO_RIGHT: Final = frozenset(
    {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}
)


class Database:
    """What the broker has on disk. One thread at a time."""

    def __init__(self, path: Path, synchronous: Synchronous) -> None:
        """Open or make the file, with mode 0600, and hold it until `close`.

        `synchronous`: what a commit outlives. "full": a power cut. "normal", "off": the broker's
        own end, kill -9 too; a power cut takes the last commits ("off": may damage the file).

        Raises:
            InUse: another broker holds it.
            Malformed: it is damaged, of a newer version or another program's, or its folder is
                missing or not writable.
            Unavailable: the disk is full or fails.

        """
        self._path = path
        _make_private(path)
        try:
            self._connection = sqlite3.connect(
                path, timeout=0, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise _problem(path, error) from error
        try:
            self._open(synchronous)
        except (sqlite3.Error, HybridgeError) as error:
            self._connection.close()
            if isinstance(error, sqlite3.Error):
                raise _problem(path, error) from error
            raise

    def load(self) -> Snapshot:
        """Give all that is stored; what belongs to nothing is logged, left out and deleted.

        Raises `Malformed` for a damaged file, `Unavailable` on a failing disk.
        """
        try:
            stored = self._read()
        except sqlite3.Error as error:
            raise _problem(self._path, error) from error
        kept, gone = consistent(stored)
        for kind, count in gone.counts.items():
            log.warning("stored_rows_dropped", extra={"kind": kind, "count": count})
        if gone.counts:
            self.write(gone.batch)
        return kept

    def write(self, batch: Batch) -> None:
        """Write all of a batch, or nothing of it; a second time changes nothing.

        What is gone goes first: a session in both `sessions_gone` and `sessions` begins anew.

        Raises:
            Unavailable: the disk is full or fails; the same batch may be written again.
            Malformed: the file is damaged.

        """
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            for text, values in steps(batch):
                connection.execute(text, values)
            connection.execute("COMMIT")
        except BaseException as error:
            if connection.in_transaction:  # SQLite ends it by itself on some errors
                connection.execute("ROLLBACK")
            if type(error) in {sqlite3.OperationalError, sqlite3.DatabaseError}:
                raise _problem(self._path, error) from error
            raise

    def close(self) -> None:
        """Move the log into the file and let go of it."""
        self._connection.close()

    def _open(self, synchronous: Synchronous) -> None:
        execute = self._connection.execute
        execute("PRAGMA locking_mode = EXCLUSIVE")  # before WAL: then there is no -shm file either
        # Debian's default writes zeros over what is deleted: 150 ms for 2,000 rows of 8 KB, not 6.
        execute("PRAGMA secure_delete = OFF")
        execute("PRAGMA journal_mode = WAL")
        execute(f"PRAGMA synchronous = {synchronous}")
        execute(f"PRAGMA journal_size_limit = {_WAL_BYTES_KEPT}")
        execute(f"PRAGMA wal_autocheckpoint = {_WAL_PAGES}")
        execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        (version,) = execute("PRAGMA user_version").fetchone()
        (application,) = execute("PRAGMA application_id").fetchone()
        (tables,) = execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if not (version or application or tables):
            self._connection.executescript(f"BEGIN IMMEDIATE; {schema.TABLES} COMMIT;")
        elif application != schema.APPLICATION_ID:
            raise Malformed(
                f"{self._path}: a database of another program; move it away or choose another "
                "--state-dir"
            )
        elif version != schema.VERSION:
            raise Malformed(
                f"{self._path}: written by a newer broker (format {version}, this one reads "
                f"{schema.VERSION}); update the broker, or move the file away to start empty"
            )
        self._shrink()

    def _shrink(self) -> None:
        """Give the disk back what a burst took, where that is quick.

        While the broker runs, free pages are only used again: the file stays as large as what
        waited at the worst moment, which the limits bound.
        """
        execute = self._connection.execute
        (free,) = execute("PRAGMA freelist_count").fetchone()
        (pages,) = execute("PRAGMA page_count").fetchone()
        if pages - free <= _SHRUNK_PAGES <= free:
            try:
                execute("VACUUM")
            except sqlite3.OperationalError as error:  # it takes room to make room
                log.warning("store_not_shrunk", extra={"why": str(error)})

    def _read(self) -> Snapshot:
        execute = self._connection.execute
        return Snapshot(
            messages=[
                MessageRow(number, topic, payload, qos, retain == 1, properties, publisher, at)
                for number, topic, payload, qos, retain, properties, publisher, at in execute(
                    "SELECT * FROM messages"
                )
            ],
            deliveries=[
                DeliveryRow(
                    number,
                    client,
                    message,
                    qos,
                    retain == 1,
                    identifiers_of(ids) if ids else (),
                    share,
                    packet_id,
                )
                for number, client, message, qos, retain, ids, share, packet_id in execute(
                    "SELECT * FROM deliveries ORDER BY delivery_id"
                )
            ],
            sessions=[SessionRow._make(row) for row in execute("SELECT * FROM sessions")],
            subscriptions=[
                SubscriptionRow._make(row) for row in execute("SELECT * FROM subscriptions")
            ],
            received=execute("SELECT * FROM received").fetchall(),
            retained=execute("SELECT * FROM retained").fetchall(),
        )


def _make_private(path: Path) -> None:
    """Make the file readable by this user alone, before SQLite gives its log the same mode.

    An existing one is not opened here: closing it again would end SQLite's locks on it (POSIX).
    """
    try:
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except FileExistsError:
            if not stat.S_ISREG(path.stat().st_mode):
                raise Malformed(f"{path}: not a file; choose another --state-dir") from None
            path.chmod(0o600)
    except OSError as error:
        words = f"{path}: {error.strerror}"
        if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EIO}:
            raise Unavailable(
                f"{words}; free space on its disk, or replace a failing one"
            ) from error
        raise Malformed(
            f"{words}; --state-dir must be a folder that exists and that this user may write to"
        ) from error


def _problem(path: Path, error: BaseException) -> HybridgeError:
    """What SQLite says about the file, and what to do about it."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _NO_ROOM:
        return Unavailable(f"{path}: {error}; free space on its disk, or replace a failing one")
    if code in _NO_RIGHT:
        return Unavailable(f"{path}: {error}; let this user write to the file and its folder")
    if code in _HELD:
        return InUse(
            f"{path}: another broker holds it; stop that one, or choose another --state-dir"
        )
    return Malformed(
        f"{path}: {error}; the file is damaged: move it away, and the broker starts a new one "
        "(sessions and messages in it are lost)"
    )
