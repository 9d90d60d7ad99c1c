"""The journal as the agent uses it, on the event loop: record, look up, wait for the disk."""

import asyncio
import logging
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from edge.answers import Answer, Cursor
from edge.journal import database
from edge.journal.agent_clock import Stamp, resumed
from edge.journal.reader import Reader
from edge.journal.rows import (
    PENDING_COLUMNS,
    WAITING_COLUMNS,
    Damaged,
    Pending,
    Waiting,
    answer_of,
    pending_of,
    waiting_row,
)
from edge.journal.writer import Commit, Group, Writer
from edge.journal.writes import Bounds, Opened, Write, purge
from shared.ids import SampleId

log = logging.getLogger(__name__)

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_CURSOR_CHARS_MAX = 64 * 1024


class Journal:
    def __init__(
        self, path: Path, bounds: Bounds, *, gap_s_max: float, queued_max: int = 20_000
    ) -> None:
        """Open or make the file; raises `Malformed` when it is not a journal of this version.

        `gap_s_max`: how much a reboot may age what waits (`agent_clock.py`). `queued_max`: writes
        that may wait for the disk. Nothing reaches the disk until `run` runs.
        """
        self._path, self._queued_max = path, queued_max
        self._db = database.connect(path)
        self._purge()
        self._reader = Reader(path)
        self._cursors = {
            str(source): str(position)
            for source, position in self._reader.rows("SELECT source, position FROM cursors")
        }
        counts = self._reader.rows("SELECT name, count FROM counts")
        self._counts = Counter(dict(cast("list[tuple[str, int]]", counts)))
        row = self._reader.row("SELECT boot, monotonic_s, wall_s, agent_s FROM clock")
        last = None if row is None else Stamp(*cast("tuple[str, float, float, float]", row))
        self._started = resumed(last, _this_instant(), gap_s_max)
        self._owed = Counter[str]()  # losses that a full disk could not even note yet
        self._queued = 0
        self._opening: dict[SampleId, Pending] = {}  # not committed yet
        self._writer = Writer(self._db, bounds, self._stamp, self._committed)
        self.on_dropped: Callable[[Sequence[Pending]], None] = lambda _: None
        """Called with the openings that a full disk did not take."""

    async def run(self) -> None:
        """Raises `Malformed` for a damaged file, in words."""
        try:
            await self._writer.run()
        except (sqlite3.IntegrityError, sqlite3.ProgrammingError):
            raise  # a bug, whatever the file is like
        except sqlite3.Error as error:
            raise database.unusable(self._path, error) from error
        finally:
            self._reader.close()
            self._db.close()

    def drain(self) -> None:
        """Let `run` return once everything recorded so far is on disk."""
        self._writer.drain()

    def record(self, *writes: Write) -> None:
        """Queue writes that reach the disk together; look at `full` before taking in samples."""
        self._queued += len(writes)
        for write in writes:
            if isinstance(write, Opened):
                self._opening[write.pending.id] = write.pending
        self._writer.submit(Group(writes))

    def move(self, cursor: Cursor, *writes: Write) -> None:
        """`record`, and move a source's cursor in the same transaction."""
        if len(cursor.position) > _CURSOR_CHARS_MAX:
            raise ValueError(f"{cursor.source}: a cursor of {len(cursor.position)} characters")
        self.record(*writes, cursor)
        self._cursors[cursor.source] = cursor.position

    def durable(self) -> "asyncio.Future[None]":
        """Done once everything recorded so far is on disk, or counted as lost to a full one."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._writer.submit(Group((), done))
        return done

    @property
    def behind(self) -> bool:
        """Whether a source should wait for `durable` before it records more."""
        return self._queued > self._queued_max // 2

    @property
    def full(self) -> bool:
        """Whether the disk is so far behind that samples must be refused."""
        return self._queued >= self._queued_max

    def now(self) -> float:
        """Seconds by the agent's clock."""
        return self._started.agent_s + (time.monotonic() - self._started.monotonic_s)

    def cursor(self, source: str) -> str | None:
        return self._cursors.get(source)

    def counts(self) -> dict[str, int]:
        """Totals since the file was made: recorded, answered, lost:<reason>."""
        return dict(sorted((self._counts + self._owed).items()))

    def outbox(self) -> list[Waiting]:
        """Every row that is on disk, by deadline; for the start."""
        rows = self._reader.rows(f"SELECT {WAITING_COLUMNS} FROM outbox ORDER BY deadline_s, seq")  # noqa: S608  a constant
        return [waiting_row(row) for row in rows]

    def pending(self, sample: SampleId) -> Pending | Damaged | None:
        """A row of the outbox, on disk or on its way there."""
        if (opening := self._opening.get(sample)) is not None:
            return opening
        row = self._reader.row(
            f"SELECT {PENDING_COLUMNS} FROM outbox WHERE id = ?",  # noqa: S608  a constant
            sample.bytes,
        )
        return None if row is None else pending_of(row)

    def find(self, sample: SampleId) -> Answer | None:
        """What is on disk: the final answer, the edge's with its loss, or the provisional one.

        Final answers on their way to the disk are not found here: whoever recorded them has them.
        """
        for query in (database.FIND_ANSWER, database.FIND_LOSS):
            row = self._reader.row(query, sample.bytes)
            if row is not None:
                return answer_of(row[1:], given_up=str(row[0]))
        pending = self.pending(sample)
        return None if pending is None else pending.answer

    def _purge(self) -> None:
        try:
            gone = purge(self._db)
        except sqlite3.Error as error:
            raise database.unusable(self._path, error) from error
        if gone:
            log.error("outbox_rows_damaged", extra={"rows": gone, "do": "check the disk"})

    def _stamp(self) -> Stamp:
        now = _this_instant()
        elapsed = now.monotonic_s - self._started.monotonic_s
        return replace(now, agent_s=self._started.agent_s + elapsed)

    def _committed(self, commit: Commit) -> None:
        for group in commit.groups:
            self._queued -= len(group.writes)
            for write in group.writes:
                if isinstance(write, Opened):
                    self._opening.pop(write.pending.id, None)
        self._counts.update(commit.totals)
        self._owed = Counter(commit.owed)
        if commit.dropped:
            self.on_dropped(commit.dropped)
        for group in commit.groups:
            if group.done is not None and not group.done.done():
                group.done.set_result(None)


def _this_instant() -> Stamp:
    try:
        boot = _BOOT_ID.read_text().strip()
    except OSError:
        boot = ""
    return Stamp(boot, time.monotonic(), time.time(), 0.0)
