"""Escalations with both answers, for training. Synchronous SQL; threads belong to the callers.

Inserting is idempotent by (device, sample). Bounded in rows and bytes: the oldest go first.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy import Connection, delete, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DataError, IntegrityError, SQLAlchemyError
from sqlalchemy.schema import CreateTable

from cloud.store.engine import open_engine
from cloud.store.known_samples import KnownSamples
from cloud.store.schema import feedback
from shared.errors import Refused, Unavailable
from shared.ids import DeviceId, SampleId
from shared.wire.envelope import CloudAnswer, Escalation

_ROW_OVERHEAD_BYTES = 250  # names, numbers and the unique index's entry
_WAIT_S = 5  # for another process's commit
_EVICT_ROWS = 512  # looked at together: a statement of some milliseconds

Key = tuple[DeviceId, SampleId]


@dataclass(frozen=True, slots=True)
class Feedback:
    device: DeviceId
    escalation: Escalation
    answer: CloudAnswer
    received_at: float  # Unix seconds

    @property
    def key(self) -> Key:
        return self.device, self.escalation.id


@dataclass(frozen=True, slots=True)
class Bounds:
    rows_max: int
    bytes_max: int


@dataclass(frozen=True, slots=True)
class Written:
    inserted: int
    evicted: int


@dataclass(frozen=True, slots=True)
class _Totals:
    rows: int = 0
    bytes: int = 0
    seq: int = 0  # the newest row that is counted


class FeedbackTable:
    """Raises `Unavailable` while the database is away, `Refused` for a row it will never take."""

    def __init__(self, url: str, bounds: Bounds) -> None:
        self._engine = open_engine(url, "store.url", file_wait_s=_WAIT_S)
        self._bounds = bounds
        self._totals = _Totals()
        self.known = KnownSamples(bounds.rows_max)
        """Perhaps stored, by any writer up to this one's last commit; read it from any thread."""

    def open(self) -> None:
        """Create what is missing and count what is there."""
        try:
            with self._engine.begin() as connection:
                # not `create_all`: two workers that start at once would both miss the table
                connection.execute(CreateTable(feedback, if_not_exists=True))
                self._totals = self._count(connection, _Totals())
        except SQLAlchemyError as error:
            raise Unavailable(f"feedback store {self._engine.url!r}: {error}") from error

    def write(self, rows: Sequence[Feedback]) -> Written:
        """Insert in one transaction what is not there yet, then delete what is over the bounds."""
        if not rows:
            return Written(0, 0)
        try:
            with self._engine.begin() as connection:
                inserted = _insert_new(connection, [_values(row) for row in rows])
                totals, evicted = self._evict(connection, self._count(connection, self._totals))
        except (IntegrityError, DataError, OverflowError) as error:
            raise Refused(f"feedback row refused: {error}") from error
        except SQLAlchemyError as error:
            raise Unavailable(f"feedback store: {error}") from error
        self._totals = totals
        return Written(inserted, evicted)

    def find(self, keys: Iterable[Key]) -> dict[Key, CloudAnswer]:
        """The stored answers among `keys`."""
        wanted = set(keys)
        query = select(
            feedback.c.device, feedback.c.sample_id, feedback.c.cloud_model,
            feedback.c.cloud_version, feedback.c.probabilities, feedback.c.queue_ms,
            feedback.c.run_ms,
        ).where(feedback.c.sample_id.in_({sample for _, sample in wanted}))  # fmt: skip
        try:
            with self._engine.connect() as connection:
                rows = connection.execute(query).all()
        except SQLAlchemyError as error:
            raise Unavailable(f"feedback store: {error}") from error
        found: dict[Key, CloudAnswer] = {}
        for device, sample, model, version, packed, queue_ms, run_ms in rows:
            key = DeviceId(device), SampleId(sample)
            if key in wanted:
                probabilities = np.frombuffer(packed, "<f4").astype(np.float32)
                found[key] = CloudAnswer(key[1], model, version, probabilities, queue_ms, run_ms)
        return found

    def close(self) -> None:
        self._engine.dispose()

    def _count(self, connection: Connection, seen: _Totals) -> _Totals:
        """Add what has come since, from every writer of this database.

        Where commits may overtake each other (PostgreSQL), another writer's row can be missed until
        the next `open`: the bounds then hold to within what the writers have in hand.
        """
        new = select(feedback.c.seq, feedback.c.row_bytes, feedback.c.sample_id).where(
            feedback.c.seq > seen.seq
        )
        rows, total, seq = seen.rows, seen.bytes, seen.seq
        for one, row_bytes, sample in connection.execute(new.execution_options(yield_per=1000)):
            rows, total, seq = rows + 1, total + row_bytes, max(seq, one)
            self.known.add(sample)
        return _Totals(rows, total, seq)

    def _evict(self, connection: Connection, totals: _Totals) -> tuple[_Totals, int]:
        rows, row_bytes, evicted = totals.rows, totals.bytes, 0
        while rows > self._bounds.rows_max or row_bytes > self._bounds.bytes_max:
            oldest = connection.execute(
                select(feedback.c.seq, feedback.c.row_bytes)
                .order_by(feedback.c.seq)
                .limit(_EVICT_ROWS)
            ).all()
            if not oldest:  # another writer evicted; the totals were behind
                return _Totals(0, 0, totals.seq), evicted
            last = 0
            for seq, size in oldest:
                if rows <= self._bounds.rows_max and row_bytes <= self._bounds.bytes_max:
                    break
                last, rows, row_bytes, evicted = seq, rows - 1, row_bytes - size, evicted + 1
            connection.execute(delete(feedback).where(feedback.c.seq <= last))
        return _Totals(rows, row_bytes, totals.seq), evicted


def _insert_new(connection: Connection, values: list[dict[str, object]]) -> int:
    """How many of them were not there."""
    if connection.dialect.name == "postgresql":  # whose driver does not count rows of many values
        statement = postgresql.insert(feedback).on_conflict_do_nothing()
        return len(connection.execute(statement.returning(feedback.c.seq), values).all())
    return connection.execute(sqlite.insert(feedback).on_conflict_do_nothing(), values).rowcount


def _values(row: Feedback) -> dict[str, object]:
    escalation, answer = row.escalation, row.answer
    payload = escalation.payload
    if math.isnan(escalation.captured_at):  # SQLite would take it for no value, PostgreSQL keeps it
        raise Refused(f"feedback row refused: sample {escalation.id}: captured_at is no number")
    probabilities = answer.probabilities.astype("<f4").tobytes()
    return {
        "sample_id": escalation.id,
        "device": row.device,
        "reason": escalation.reason,
        "captured_at": escalation.captured_at,
        "received_at": row.received_at,
        "codec": payload.codec,
        "dtype": payload.dtype,
        "shape": ",".join(map(str, payload.shape)),
        "dictionary": payload.dictionary,
        "payload": payload.data,
        "edge_model": escalation.model,
        "edge_version": escalation.model_version,
        "edge_label": escalation.edge_label,
        "edge_confidence": escalation.edge_confidence,
        "cloud_model": answer.model,
        "cloud_version": answer.model_version,
        "probabilities": probabilities,
        "queue_ms": answer.queue_ms,
        "run_ms": answer.run_ms,
        "row_bytes": len(payload.data) + len(probabilities) + _ROW_OVERHEAD_BYTES,
    }
