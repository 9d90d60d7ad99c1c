"""A topic's messages on disk, between windows: bounded, and a source like any other.

Several workers of one machine may share the file. A message that comes twice (MQTT delivers at
least once) is kept once: its name is made of its topic and its content's hash.
"""

import hashlib
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cloud.batch.source import Found
from cloud.store.first_open import alone
from shared.errors import Malformed, Unavailable

_SCHEMA = """
CREATE TABLE IF NOT EXISTS message (
    name TEXT PRIMARY KEY, received REAL NOT NULL, size_bytes INTEGER NOT NULL, content BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS held (messages INTEGER NOT NULL, bytes INTEGER NOT NULL);
INSERT INTO held SELECT 0, 0 WHERE NOT EXISTS (SELECT 1 FROM held);
CREATE TRIGGER IF NOT EXISTS came AFTER INSERT ON message BEGIN
    UPDATE held SET messages = messages + 1, bytes = bytes + new.size_bytes; END;
CREATE TRIGGER IF NOT EXISTS went AFTER DELETE ON message BEGIN
    UPDATE held SET messages = messages - 1, bytes = bytes - old.size_bytes; END;
"""


@dataclass(frozen=True, slots=True)
class Message:
    topic: str
    content: bytes

    @property
    def name(self) -> str:
        return f"{self.topic}/{hashlib.sha256(self.content).hexdigest()[:32]}"


@dataclass(frozen=True, slots=True)
class Put:
    """Of the messages given, in their order: so many were taken, of which so many were copies.

    `held`: that are on disk now.
    """

    taken: int
    copies: int
    held: int


class Buffer:
    """All calls block, and raise `Unavailable` when the disk refuses; making one, also `Malformed`."""

    def __init__(
        self,
        path: Path,
        *,
        messages_max: int,
        bytes_max: int,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._path, self._wall = path, wall
        self._messages_max, self._bytes_max = messages_max, bytes_max
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._db = sqlite3.connect(
                path, timeout=5.0, isolation_level=None, check_same_thread=False
            )
            with alone(str(path)):  # the workers of a machine open it at the same moment
                self._db.execute("PRAGMA journal_mode=WAL")
                self._db.execute("PRAGMA synchronous=FULL")
                self._db.executescript(_SCHEMA)
        except sqlite3.OperationalError as error:  # locked, full, not ours to write: kept as it is
            raise Unavailable(f"{path}: {error}") from error
        except sqlite3.Error as error:
            raise Malformed(f"{path}: not a near-line buffer: {error}; remove it") from error

    @property
    def where(self) -> str:
        return str(self._path)

    def put(self, messages: Sequence[Message]) -> Put:
        """Keep messages, from the first on, until there is no room; synced when it returns."""
        copies = 0
        with self._changing() as db:
            held, size = db.execute("SELECT messages, bytes FROM held").fetchone()
            for at, message in enumerate(messages):
                if held >= self._messages_max or size + len(message.content) > self._bytes_max:
                    return Put(at, copies, held)
                changed = db.execute(
                    "INSERT OR IGNORE INTO message VALUES (?, ?, ?, ?)",
                    (message.name, self._wall(), len(message.content), message.content),
                ).rowcount
                held, size = held + changed, size + changed * len(message.content)
                copies += 1 - changed
        return Put(len(messages), copies, held)

    def count(self) -> int:
        with self._reading() as db:
            return int(db.execute("SELECT messages FROM held").fetchone()[0])

    def find(self) -> list[Found]:
        with self._reading() as db:
            rows = db.execute("SELECT name, size_bytes, received FROM message ORDER BY name")
            return [Found(name, size, name[-32:], received) for name, size, received in rows]

    def read(self, found: Found) -> bytes:
        with self._reading() as db:
            row = db.execute("SELECT content FROM message WHERE name = ?", (found.name,)).fetchone()
        if row is None:
            raise Malformed(f"{found.name}: gone since it was listed")
        return bytes(row[0])

    def remove(self, names: Iterable[str]) -> None:
        with self._changing() as db:
            db.executemany("DELETE FROM message WHERE name = ?", ((name,) for name in names))

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        with self._reading() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        try:
            yield self._db
        except sqlite3.Error as error:
            raise Unavailable(f"{self._path}: {error}") from error
