"""Which samples go when the feedback table is over its bounds.

A device that has more than its share loses its own oldest samples first; then the oldest of all go.
So one that floods the store does not evict everybody else's.
"""

from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from cloud.store import totals
from cloud.store.schema import feedback, labels
from cloud.store.totals import Change

_ROWS: Final = 512  # looked at together: a statement of some milliseconds
_REACH: Final = 50_000  # rows passed in search of one device's: ten milliseconds
_of = feedback.c


@dataclass(frozen=True, slots=True)
class Bounds:
    rows_max: int
    bytes_max: int
    device_rows_share_max: float = 0.1
    """Of rows and of bytes: what a device has above it goes first, when something must."""


class Evictor:
    """Of one writer."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._passed: dict[str, int] = {}  # device -> it has no row up to this one

    def evict(self, connection: sa.Connection, rows: int, size: int, change: Change) -> int:
        """Delete what is over the bounds; how many rows that was. `change` learns of it.

        `rows` and `size` (bytes) are what the table has now.
        """
        evicted = 0
        while rows > self._bounds.rows_max or size > self._bounds.bytes_max:
            going = self._next(connection, rows, size, change)
            if not going:
                break
            for _, device, row_bytes in going:
                change.count(device, row_bytes, -1)
                rows, size = rows - 1, size - row_bytes
            evicted += len(going)
        return evicted

    def _next(
        self, connection: sa.Connection, rows: int, size: int, change: Change
    ) -> list[tuple[int, str, int]]:
        """Delete some; number, device and bytes of each."""
        by_rows = rows > self._bounds.rows_max
        for device, allowance in self._devices_over(connection, change, by_rows=by_rows):
            if going := self._cut(self._oldest_of(connection, device, allowance), rows, size):
                numbers = [seq for seq, _, _ in going]
                connection.execute(sa.delete(labels).where(labels.c.sample_seq.in_(numbers)))
                connection.execute(sa.delete(feedback).where(_of.seq.in_(numbers)))
                self._passed[device] = numbers[-1]
                return going
        over = rows - self._bounds.rows_max if size <= self._bounds.bytes_max else _ROWS
        query = sa.select(_of.seq, _of.device, _of.row_bytes).order_by(_of.seq)
        query = query.limit(min(over, _ROWS))
        going = self._cut([tuple(row) for row in connection.execute(query)], rows, size)
        if going:
            last = going[-1][0]
            connection.execute(sa.delete(labels).where(labels.c.sample_seq <= last))
            connection.execute(sa.delete(feedback).where(_of.seq <= last))
        return going

    def _cut(
        self, oldest: list[tuple[int, str, int]], rows: int, size: int
    ) -> list[tuple[int, str, int]]:
        for count, (_, _, row_bytes) in enumerate(oldest):
            if rows <= self._bounds.rows_max and size <= self._bounds.bytes_max:
                return oldest[:count]
            rows, size = rows - 1, size - row_bytes
        return oldest

    def _devices_over(
        self, connection: sa.Connection, change: Change, *, by_rows: bool
    ) -> list[tuple[str, int]]:
        """Devices above their share, and how many rows each may lose now."""
        share = self._bounds.device_rows_share_max
        allowed = int((self._bounds.rows_max if by_rows else self._bounds.bytes_max) * share)
        more = change.rows if by_rows else change.bytes
        has = {device: 0 for device in more if device != totals.ALL}
        has |= dict(totals.most(connection, by_rows=by_rows))
        over = sorted(
            ((device, stored + more[device] - allowed) for device, stored in has.items()),
            key=lambda one: (-one[1], one[0]),
        )
        self._passed = {d: at for d, at in self._passed.items() if d in has}
        return [(device, most if by_rows else _ROWS) for device, most in over if most > 0]

    def _oldest_of(
        self, connection: sa.Connection, device: str, count: int
    ) -> list[tuple[int, str, int]]:
        """None where they are further on than is looked in one go; the next call goes on there."""
        passed = self._passed.get(device)
        if passed is None:
            passed = (connection.execute(sa.select(sa.func.min(_of.seq))).scalar() or 1) - 1
        query = (
            sa.select(_of.seq, _of.device, _of.row_bytes)
            .where(_of.seq > passed, _of.seq <= passed + _REACH, _of.device == device)
            .order_by(_of.seq)
            .limit(min(_ROWS, count))
        )
        found = [tuple(row) for row in connection.execute(query)]
        self._passed[device] = passed if found else passed + _REACH
        return found
