"""Escalations with both answers, for training. Synchronous SQL; threads belong to the callers.

Inserting is idempotent by (device, sample). Bounded in rows and bytes (`evicting.py`): of the devices
that have more than their share the oldest samples go first, then the oldest of all.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Connection, func, select
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DataError, IntegrityError, SQLAlchemyError

from cloud.store import totals
from cloud.store.draw import draw_of
from cloud.store.engine import open_engine, writing
from cloud.store.evicting import Bounds, Evictor
from cloud.store.known_samples import KnownSamples
from cloud.store.opening import migrate
from cloud.store.sample_row import Feedback, Key
from cloud.store.schema import feedback
from cloud.store.totals import ALL, Change
from shared.errors import Refused, Unavailable
from shared.ids import DeviceId, SampleId
from shared.wire.envelope import CloudAnswer

_ROW_OVERHEAD_BYTES = 450  # names, numbers and the indexes' entries
_WAIT_S = 5  # for another process's commit

_COLUMNS = (
    "sample_id", "device", "reason", "captured_at", "received_at", "codec", "dtype", "shape",
    "dictionary", "payload", "edge_model", "edge_version", "edge_label", "edge_confidence",
    "cloud_model", "cloud_version", "probabilities", "queue_ms", "run_ms", "row_bytes", "share",
    "cloud_label", "cloud_confidence", "label", "draw",
)  # fmt: skip
_SQLITE_INSERT = (  # as text: going through each parameter's type costs as much as inserting it
    f"INSERT INTO feedback ({', '.join(_COLUMNS)}) "  # noqa: S608  constants
    f"VALUES ({', '.join('?' * len(_COLUMNS))}) ON CONFLICT DO NOTHING"
)


@dataclass(frozen=True, slots=True)
class Written:
    inserted: int
    evicted: int


class FeedbackTable:
    """Raises `Unavailable` while the database is away, `Refused` for a row it will never take."""

    def __init__(self, url: str, bounds: Bounds) -> None:
        self._url = url
        self._engine = open_engine(url, "store.url", file_wait_s=_WAIT_S)
        self._writing = writing(self._engine)
        self._evictor = Evictor(bounds)
        self._seen = 0  # the newest row that is in `known`
        self.known = KnownSamples(bounds.rows_max)
        """Perhaps stored, by any writer up to this one's last commit; read it from any thread."""

    def open(self) -> None:
        """Create or migrate the tables and read the ids that are there.

        Raises `Malformed` for a database of a newer program, too.
        """
        migrate(self._url, "store.url")
        try:
            with self._engine.begin() as connection:
                self._learn(connection)
        except SQLAlchemyError as error:
            raise Unavailable(f"feedback store {self._engine.url!r}: {error}") from error

    def write(self, rows: Sequence[Feedback]) -> Written:
        """Insert in one transaction what is not there yet, then delete what is over the bounds."""
        if not rows:
            return Written(0, 0)
        try:
            with self._writing.begin() as connection:
                inserted, had, size = self._insert_new(connection, [_values(row) for row in rows])
                change = Change()
                for device, row_bytes in inserted:
                    change.count(device, row_bytes)
                evicted = self._evictor.evict(
                    connection, had + len(inserted), size + change.bytes[ALL], change
                )
                totals.apply(connection, change)
        except (IntegrityError, DataError, OverflowError) as error:
            raise Refused(f"feedback row refused: {error}") from error
        except SQLAlchemyError as error:
            raise Unavailable(f"feedback store: {error}") from error
        return Written(len(inserted), evicted)

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

    def _insert_new(
        self, connection: Connection, values: list[dict[str, Any]]
    ) -> tuple[list[tuple[str, int]], int, int]:
        """Device and bytes of each row that was not there; rows and bytes of all before them."""
        of = feedback.c
        if connection.dialect.name == "postgresql":
            statement = postgresql.insert(feedback).on_conflict_do_nothing()
            returned = connection.execute(statement.returning(of.device, of.row_bytes), values)
            inserted = [(device, row_bytes) for device, row_bytes in returned]
            self._learn(connection)
            return inserted, *totals.locked(connection)
        # nobody else writes until this transaction ends, so what is new from here on is ours
        newest = select(func.coalesce(func.max(of.seq), 0)).scalar_subquery()
        had, size, before = connection.execute(totals.OF_ALL.add_columns(newest)).one()
        added = connection.exec_driver_sql(
            _SQLITE_INSERT, [(one["sample_id"].hex, *list(one.values())[1:]) for one in values]
        )
        if added.rowcount < len(values) or self._seen < before:
            new = [(device, its) for seq, device, its in self._new(connection) if seq > before]
            return new, had, size
        for one in values:
            self.known.add(one["sample_id"])
        self._seen = connection.execute(select(func.max(of.seq))).scalar_one()
        return [(one["device"], one["row_bytes"]) for one in values], had, size

    def _learn(self, connection: Connection) -> None:
        for _ in self._new(connection):
            pass

    def _new(self, connection: Connection) -> Iterator[tuple[int, str, int]]:
        """Number, device and bytes of the rows that came since, from every writer; they are `known`.

        Where commits may overtake each other (PostgreSQL), another writer's row can be missed until
        the next `open`: then its sample is answered twice, and stored once.
        """
        of = feedback.c
        query = select(of.seq, of.sample_id, of.device, of.row_bytes).where(of.seq > self._seen)
        rows = connection.execute(query.order_by(of.seq).execution_options(yield_per=1000))
        for seq, sample, device, row_bytes in rows:
            self.known.add(sample)
            self._seen = seq
            yield seq, device, row_bytes


def _values(row: Feedback) -> dict[str, Any]:
    """By `_COLUMNS`, in their order."""
    escalation, answer = row.escalation, row.answer
    payload = escalation.payload
    if math.isnan(escalation.captured_at):  # SQLite would take it for no value, PostgreSQL keeps it
        raise Refused(f"feedback row refused: sample {escalation.id}: captured_at is no number")
    label = int(answer.probabilities.argmax())
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
        "share": escalation.share,
        "cloud_label": label,
        "cloud_confidence": min(1.0, float(answer.probabilities[label])),
        "label": label,
        "draw": draw_of(escalation.id),
    }
