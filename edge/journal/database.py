"""The SQLite file: how it is opened, and its tables."""

import sqlite3
from pathlib import Path

from edge.journal.rows import ANSWER_COLUMNS
from shared.errors import HybridgeError, Malformed, Unavailable

VERSION = 1
NO_ROOM = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR})
_NOT_OURS = frozenset(
    {
        sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM,
    }
)  # fmt: skip
_WAL_BYTES_KEPT = 4 * 1024 * 1024
_CACHE_KIB = 4096

_ANSWER = """
    id BLOB NOT NULL UNIQUE, label INTEGER NOT NULL, confidence REAL NOT NULL,
    source TEXT NOT NULL, route TEXT NOT NULL, model_version TEXT NOT NULL,
    latency_ms REAL NOT NULL, origin TEXT NOT NULL, position TEXT NOT NULL,
    edge_label INTEGER NOT NULL, first_latency_ms REAL NOT NULL, uplink_bytes INTEGER NOT NULL
"""
_TABLES = f"""
CREATE TABLE outbox (
    seq INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, audit INTEGER NOT NULL,
    confidence REAL NOT NULL, bytes INTEGER NOT NULL, deadline_s REAL NOT NULL,
    escalation BLOB NOT NULL, logits BLOB NOT NULL, latency_ms REAL NOT NULL,
    origin TEXT NOT NULL, position TEXT NOT NULL
) STRICT;
CREATE TABLE answers (seq INTEGER PRIMARY KEY, {_ANSWER}) STRICT;
CREATE TABLE ledger (
    seq INTEGER PRIMARY KEY, reason TEXT NOT NULL, at REAL NOT NULL, {_ANSWER}
) STRICT;
CREATE TABLE counts (name TEXT PRIMARY KEY, count INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE cursors (source TEXT PRIMARY KEY, position TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE clock (
    one INTEGER PRIMARY KEY CHECK (one = 1), boot TEXT NOT NULL, monotonic_s REAL NOT NULL,
    wall_s REAL NOT NULL, agent_s REAL NOT NULL
) STRICT;
PRAGMA user_version = {VERSION};
"""
FIND_ANSWER = f"SELECT '', {ANSWER_COLUMNS} FROM answers WHERE id = ?"  # noqa: S608  a constant
FIND_LOSS = f"SELECT reason, {ANSWER_COLUMNS} FROM ledger WHERE id = ?"  # noqa: S608  a constant


def unusable(path: Path, error: sqlite3.Error) -> HybridgeError:
    """What SQLite says about the file, and what to do about it."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in NO_ROOM:
        return Unavailable(f"{path}: {error}; free space on its disk, or replace a failing one")
    if code in _NOT_OURS:
        return Malformed(
            f"{path}: {error}; let this user write to the file and its folder, and no other "
            "program hold it"
        )
    return Malformed(
        f"{path}: {error}; the file is damaged: move it away, and the agent starts a new one "
        "(what waited in it is lost)"
    )


def connect(path: Path) -> sqlite3.Connection:
    """Open or make the file.

    Raises `Malformed` for one that is damaged or not this program's, `Unavailable` on a full disk.
    """
    try:
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")  # survives a power cut (FINDINGS 3)
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES_KEPT}")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == 0:
            connection.executescript(f"BEGIN IMMEDIATE; {_TABLES} COMMIT;")
    except sqlite3.Error as error:
        raise unusable(path, error) from error
    if version > VERSION:
        connection.close()
        raise Malformed(
            f"{path}: written by a newer agent (format {version}, this one reads {VERSION}); "
            "update the agent or move the file away"
        )
    return connection
