"""What a job has done, on disk: a row for each input and each part, in one SQLite file.

A part and the inputs in it are one transaction, made after the part's file is synced under its
name. So a kill leaves either both or a file that the next run writes again, byte for byte.
"""

import fcntl
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import ValidationError

from cloud.batch.job import Job
from cloud.batch.source import Found
from shared.errors import InUse, Malformed, Refused, Unavailable

State = Literal["partial", "done", "failed"]
_NAME = "journal.db"
_LOCK = "journal.lock"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS job (id INTEGER PRIMARY KEY CHECK (id = 1), job TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS input (
    name TEXT PRIMARY KEY, size_bytes INTEGER NOT NULL, tag TEXT NOT NULL,
    rows INTEGER NOT NULL, state TEXT NOT NULL, why TEXT
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS part (
    number INTEGER PRIMARY KEY, file TEXT NOT NULL, rows INTEGER NOT NULL, sha256 TEXT NOT NULL
);
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """How far one input has come."""

    name: str
    size_bytes: int
    tag: str
    rows: int  # answered so far, from the first on
    state: State
    why: str | None = None  # when it failed

    def is_of(self, found: Found) -> bool:
        """Whether the input is still what it was."""
        return (self.size_bytes, self.tag) == (found.size_bytes, found.tag)


@dataclass(frozen=True, slots=True)
class Part:
    """One file of answers."""

    number: int
    file: str
    rows: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Totals:
    inputs: int
    failed: int
    rows: int
    parts: int


class Journal:
    """One process writes; `read_only` ones may look on. All calls block."""

    def __init__(self, folder: Path, *, read_only: bool = False) -> None:
        """Raises `InUse` while another process writes, `Malformed` when it is no journal."""
        self._folder, path = folder, folder / _NAME
        self._lock = None if read_only else _locked(folder)
        try:
            mode = "ro" if read_only else "rwc"
            self._db = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=5.0,
                isolation_level=None, check_same_thread=False,
            )  # fmt: skip
            if not read_only:
                self._db.execute("PRAGMA journal_mode=WAL")
                self._db.execute("PRAGMA synchronous=FULL")
                self._db.executescript(_SCHEMA)
            self._db.execute("SELECT count(*) FROM job").fetchone()
        except sqlite3.Error as error:
            self._unlock()
            raise Malformed(f"{path}: not a batch's journal: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._db.close()
        self._unlock()

    def job(self) -> Job | None:
        """None before a job has begun here."""
        rows = self._read("SELECT job FROM job")
        if not rows:
            return None
        try:
            return Job.model_validate_json(rows[0][0])
        except ValidationError as error:
            raise Malformed(
                f"{self._folder}: its job was begun by another Hybridge; finish it with that one"
            ) from error

    def begin(self, job: Job) -> None:
        """Raises `Refused` when the folder holds the answers of another job."""
        before = self.job()
        if before is None:
            with self._changing() as db:
                db.execute("INSERT INTO job VALUES (1, ?)", (job.model_dump_json(),))
        elif difference := before.differs(job):
            raise Refused(
                f"{self._folder}: holds another job's answers: {difference}; "
                "name an empty folder, or ask for the same"
            )

    def entries(self) -> dict[str, Entry]:
        rows = self._read("SELECT name, size_bytes, tag, rows, state, why FROM input")
        return {row[0]: Entry(*row) for row in rows}

    def failures(self) -> list[Entry]:
        """By name."""
        rows = self._read(
            "SELECT name, size_bytes, tag, rows, state, why FROM input "
            "WHERE state = 'failed' ORDER BY name"
        )
        return [Entry(*row) for row in rows]

    def parts(self) -> list[Part]:
        rows = self._read("SELECT number, file, rows, sha256 FROM part ORDER BY number")
        return [Part(*row) for row in rows]

    def next_part(self) -> int:
        ((last,),) = self._read("SELECT max(number) FROM part")
        return 0 if last is None else int(last) + 1

    def totals(self) -> Totals:
        ((inputs, failed),) = self._read(
            "SELECT count(*) FILTER (WHERE state != 'partial'), "
            "count(*) FILTER (WHERE state = 'failed') FROM input"
        )
        ((parts, rows),) = self._read("SELECT count(*), coalesce(sum(rows), 0) FROM part")
        return Totals(inputs, failed, rows, parts)

    def commit(self, part: Part | None, entries: Iterable[Entry]) -> None:
        """A part, whose file is on disk, and how far its inputs have come. Raises `Unavailable`."""
        with self._changing() as db:
            if part is not None:
                db.execute(
                    "INSERT INTO part VALUES (?, ?, ?, ?)",
                    (part.number, part.file, part.rows, part.sha256),
                )
            db.executemany(
                "INSERT OR REPLACE INTO input VALUES (?, ?, ?, ?, ?, ?)",
                ((e.name, e.size_bytes, e.tag, e.rows, e.state, e.why) for e in entries),
            )

    def forget(self, names: Iterable[str], parts_before: int) -> None:
        """Inputs that are no more, and parts that a window's summary has named (near-line)."""
        with self._changing() as db:
            db.executemany("DELETE FROM input WHERE name = ?", ((name,) for name in names))
            db.execute(  # the last stays: it holds the count
                "DELETE FROM part WHERE number < ? AND number < (SELECT max(number) FROM part)",
                (parts_before,),
            )

    def _read(self, query: str) -> list[Any]:
        with self._in_words():
            return self._db.execute(query).fetchall()

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        with self._in_words():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise Unavailable(
                f"{self._folder / _NAME}: {error}; run again once that is mended"
            ) from error

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def remaining(
    found: Iterable[Found], entries: Mapping[str, Entry], *, changed_again: bool = False
) -> list[tuple[Found, int]]:
    """What is left to do: each input with how many of its rows are answered already.

    An input that failed is tried again once it has changed. One that changed after rows of it were
    answered is done again from its first row when `changed_again`; else raises `Refused`, because
    the answers to its old content would stand beside those to its new one.
    """
    left: list[tuple[Found, int]] = []
    for one in found:
        entry = entries.get(one.name)
        if entry is None:
            left.append((one, 0))
        elif entry.is_of(one):
            if entry.state == "partial":
                left.append((one, entry.rows))
        elif changed_again or entry.state == "failed":
            left.append((one, 0))
        else:
            raise Refused(
                f"{one.name}: changed after {entry.rows} of its rows were answered; "
                "run into a new folder, or put the old file back"
            )
    return left


def exists(folder: Path) -> bool:
    return (folder / _NAME).is_file()


def _locked(folder: Path) -> int:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        number = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise Unavailable(f"{folder}: cannot be written: {error.strerror}") from error
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(number)
        raise InUse(f"{folder}: another batch writes here; wait for it, or name another") from error
    return number
