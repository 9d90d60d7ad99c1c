"""Deleting samples, a few at a time: a worker that waits to write is never held up for long."""

import time
from collections.abc import Callable
from typing import Final

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection

from cloud.feedback.database import FeedbackDatabase
from cloud.feedback.documents import Deletion
from cloud.store import totals
from cloud.store.schema import feedback, labels, log
from shared.errors import Unavailable

ROWS_AT_ONCE: Final = 200
"""About ten milliseconds on SQLite, with the wait for the disk."""
_PAUSE_S_MIN: Final = 0.03
_PAUSE_MOST: Final = 2.0
"""A pause is so many times as long as what it follows. SQLite's writers look for their turn again and
again, up to a tenth of a second apart: they find none where one transaction follows another."""
_of = feedback.c

Row = tuple[int, str, int]
"""Number, device, bytes."""


class Deleting:
    """`pause` waits for so many seconds, or returns True sooner: the process ends, and nothing more is
    deleted. What went stays deleted, and stands in the log.
    """

    def __init__(
        self, database: FeedbackDatabase, log_lines_max: int, pause: Callable[[float], bool]
    ) -> None:
        self._database, self._log_lines_max, self._pause = database, log_lines_max, pause

    def by(self, deletion: Deletion, actor: str, now: float) -> tuple[int, int]:
        """Rows and bytes that went. The log has a line of it from the first one on.

        Raises `Unavailable` where the process ends before all went.
        """
        wanted: list[ColumnElement[bool]] = []
        if deletion.device is not None:
            wanted.append(_of.device == deletion.device)
        if deletion.since is not None:
            wanted.append(_of.received_at >= deletion.since)
        if deletion.until is not None:
            wanted.append(_of.received_at < deletion.until)
        subject = deletion.model_dump_json(exclude={"comment"}, exclude_none=True)
        line = self._database.write(
            lambda connection: begin_line(
                connection, now, actor, "delete", subject, deletion.comment, self._log_lines_max
            )
        )
        return self._all(wanted, line)

    def older_than(self, cutoff: float, now: float) -> tuple[int, int]:
        """Rows and bytes of samples that were received before `cutoff`.

        Looks at the oldest by number and stops at the first lot that is all younger: what waited in
        a worker for its database is deleted a little later. So is the rest, when the process ends.
        """
        rows = size = 0
        line: int | None = None
        while True:
            oldest = self._database.read(_oldest)
            going = [(seq, device, size) for seq, device, size, at in oldest if at < cutoff]
            if not going:
                return rows, size
            if line is None:
                line = self._database.write(
                    lambda connection: begin_line(
                        connection, now, "retention", "expire", f'{{"until":{cutoff}}}', "",
                        self._log_lines_max,
                    )
                )  # fmt: skip
            gone, ends = self._delete(going, line)
            rows, size = rows + gone[0], size + gone[1]
            if ends:
                return rows, size

    def _all(self, wanted: list[ColumnElement[bool]], line: int) -> tuple[int, int]:
        """In the order of their numbers up to the newest there is now: a device that goes on sending
        would keep this busy for ever.
        """
        rows = size = last = 0
        newest = self._database.read(_newest)
        while True:
            query = (
                sa.select(_of.seq, _of.device, _of.row_bytes)
                .where(*wanted, _of.seq > last, _of.seq <= newest)
                .order_by(_of.seq)
                .limit(ROWS_AT_ONCE)
            )
            going: list[Row] = self._database.read(
                lambda connection, query=query: [  # type: ignore[misc]  # bound now, not later
                    (seq, device, size) for seq, device, size in connection.execute(query)
                ]
            )
            if not going:
                return rows, size
            last = going[-1][0]
            gone, ends = self._delete(going, line)
            rows, size = rows + gone[0], size + gone[1]
            if ends and last < newest:
                raise Unavailable(
                    f"this process ends; {rows} samples ({size} bytes) are deleted, more may be there: "
                    "delete again"
                )

    def _delete(self, going: list[Row], line: int) -> tuple[tuple[int, int], bool]:
        """What went, and whether the process ends."""
        began = time.monotonic()
        gone = self._database.write(lambda connection: delete(connection, going, line))
        took = time.monotonic() - began
        return gone, self._pause(max(_PAUSE_S_MIN, _PAUSE_MOST * took))


def delete(connection: Connection, going: list[Row], line: int) -> tuple[int, int]:
    """Samples with what people said of them, in the totals and in the log's line. Rows and bytes of
    those that were still there.
    """
    totals.locked(connection)
    numbers = [seq for seq, _, _ in going]
    here = set(
        connection.execute(sa.select(_of.seq).where(_of.seq.in_(numbers))).scalars()
    )  # a worker may have evicted some
    change = totals.Change()
    for seq, device, size in going:
        if seq in here:
            change.count(device, size, -1)
    connection.execute(sa.delete(labels).where(labels.c.sample_seq.in_(numbers)))
    connection.execute(sa.delete(feedback).where(_of.seq.in_(numbers)))
    totals.apply(connection, change)
    rows, size = -change.rows[totals.ALL], -change.bytes[totals.ALL]
    connection.execute(
        sa.update(log)
        .where(log.c.seq == line)
        .values(row_count=log.c.row_count + rows, byte_count=log.c.byte_count + size)
    )
    return rows, size


def begin_line(
    connection: Connection, now: float, actor: str, kind: str, subject: str, comment: str,
    lines_max: int,
) -> int:  # fmt: skip
    """Its number, of a line in the log that says nothing has gone yet. The oldest lines go."""
    made = connection.execute(
        sa.insert(log).values(
            at=now, actor=actor, kind=kind, subject=subject, comment=comment, row_count=0,
            byte_count=0,
        )
    )  # fmt: skip
    assert made.inserted_primary_key is not None
    number = int(made.inserted_primary_key[0])
    connection.execute(sa.delete(log).where(log.c.seq <= number - lines_max))
    return number


def _newest(connection: Connection) -> int:
    """The number of the newest sample; 0: there is none."""
    return connection.execute(sa.select(sa.func.max(_of.seq))).scalar() or 0


def _oldest(connection: Connection) -> list[tuple[int, str, int, float]]:
    query = sa.select(_of.seq, _of.device, _of.row_bytes, _of.received_at)
    return [
        (seq, device, size, at)
        for seq, device, size, at in connection.execute(query.order_by(_of.seq).limit(ROWS_AT_ONCE))
    ]
