"""Lists out of the tables, and the reports that are kept beside the log."""

import json
from collections.abc import Iterator
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Row, Table, delete, func, select

from cloud.document import Document
from cloud.registry.catalog.changes import DataSetAdded, DeltaAdded, TrustPublished
from cloud.registry.catalog.project import Row as Projected
from cloud.registry.documents import (
    DataSet,
    Delta,
    Entry,
    Evaluation,
    Model,
    ModelVersion,
    ReplicaState,
    Runner,
)
from cloud.registry.store import schema as s
from cloud.registry.store.view import SqlView

D = TypeVar("D", bound=Document)
_ROWS_AT_ONCE: Final = 500


def models(connection: Connection) -> list[Model]:
    return list(_all(connection, Model, s.models, order=(s.models.c.name,)))


def versions(connection: Connection, model: str | None = None) -> Iterator[ModelVersion]:
    """Rising; None: of every model, in the order of names."""
    t = s.versions.c
    where = [] if model is None else [t.model == model]
    return _all(connection, ModelVersion, s.versions, *where, order=(t.model, t.rank))


def evaluations(
    connection: Connection, model: str | None = None, version: str | None = None
) -> Iterator[Evaluation]:
    """As they were queued; None: of every one."""
    t = s.evaluations.c
    where = [] if model is None else [t.model == model]
    where += [] if version is None else [t.version == version]
    return _all(connection, Evaluation, s.evaluations, *where, order=(t.queued_seq,))


def data_sets(connection: Connection) -> list[DataSet]:
    t = s.data_sets.c
    found = _all(connection, DataSetAdded, s.data_sets, order=(t.name, t.version))
    return [one.data_set for one in found]


def deltas(connection: Connection, to_sha256: str | None = None) -> list[Delta]:
    """None: to every file."""
    t = s.deltas.c
    where = [] if to_sha256 is None else [t.to_sha256 == to_sha256]
    found = _all(connection, DeltaAdded, s.deltas, *where, order=(t.to_sha256, t.from_sha256))
    return [one.delta for one in found]


def trust_files(connection: Connection) -> Iterator[TrustPublished]:
    """Every version of every role, rising."""
    return _all(connection, TrustPublished, s.trust, order=(s.trust.c.role, s.trust.c.version))


def log(connection: Connection, after: int, limit: int) -> list[Entry]:
    """Rising from the entry after `after`."""
    query = select(s.log).where(s.log.c.seq > after).order_by(s.log.c.seq).limit(limit)
    return [_entry_of(row) for row in connection.execute(query)]


def whole_log(connection: Connection) -> Iterator[Entry]:
    """Rising. In pieces: a cursor on the server would have to be closed by who stops half way."""
    seq = 0
    while entries := log(connection, seq, _ROWS_AT_ONCE):
        yield from entries
        seq = entries[-1].seq


def rows(connection: Connection) -> Iterator[Projected]:
    """All that follows from the log, in no order."""
    yield from _all(connection, Model, s.models)
    yield from _all(connection, ModelVersion, s.versions)
    yield from _all(connection, Evaluation, s.evaluations)
    yield from _all(connection, DataSetAdded, s.data_sets)
    yield from _all(connection, DeltaAdded, s.deltas)
    yield from _all(connection, TrustPublished, s.trust)


def history(connection: Connection, model: str, version: str | None, limit: int) -> list[Entry]:
    """What the log says of a model, or of one version, newest first."""
    t = s.log.c
    where = [t.model == model] if version is None else [t.model == model, t.version == version]
    query = select(s.log).where(*where).order_by(t.seq.desc()).limit(limit)
    return [_entry_of(row) for row in connection.execute(query)]


def replicas(connection: Connection) -> list[ReplicaState]:
    return list(_all(connection, ReplicaState, s.replicas, order=(s.replicas.c.name,)))


def runners(connection: Connection, model: str | None) -> list[Runner]:
    """None: of every model."""
    t = s.runners.c
    where = [] if model is None else [t.model == model]
    return list(_all(connection, Runner, s.runners, *where, order=(t.model, t.name)))


def keep_runner(connection: Connection, runner: Runner, since: float, runners_max: int) -> bool:
    """False where there is no room, even without those that were not seen since then."""
    t = s.runners.c
    view = SqlView(connection)
    key = {"name": runner.name, "model": runner.model}
    values: dict[str, Any] = {
        "version": runner.version, "seen_at": runner.seen_at,
        "document": runner.model_dump_json(),
    }  # fmt: skip
    if view.update(s.runners, key, **values):
        return True
    if _count(connection, s.runners) >= runners_max:
        connection.execute(delete(s.runners).where(t.seen_at < since))
        if _count(connection, s.runners) >= runners_max:
            return False
    view.upsert(s.runners, key, **values)
    return True


def keep_replica(
    connection: Connection, replica: ReplicaState, since: float, replicas_max: int
) -> bool:
    """False where there is no room, even without those that were not seen since then."""
    view = SqlView(connection)
    key = {"name": replica.name}
    values: dict[str, Any] = {"seen_at": replica.seen_at, "document": replica.model_dump_json()}
    if view.update(s.replicas, key, **values):
        return True
    if _count(connection, s.replicas) >= replicas_max:
        connection.execute(delete(s.replicas).where(s.replicas.c.seen_at < since))
        if _count(connection, s.replicas) >= replicas_max:
            return False
    view.upsert(s.replicas, key, **values)
    return True


def _all(
    connection: Connection, kind: type[D], table: Table, *where: Any, order: tuple[Any, ...] = ()
) -> Iterator[D]:
    query = select(table.c.document).where(*where).order_by(*order)
    for row in connection.execute(query):
        yield kind.model_validate_json(row.document)


def _count(connection: Connection, table: Table) -> int:
    return int(connection.execute(select(func.count()).select_from(table)).scalar_one())


def _entry_of(row: Row[Any]) -> Entry:
    return Entry(
        seq=row.seq, epoch=row.epoch, at=row.at, actor=row.actor, kind=row.kind,
        change=json.loads(row.change), previous=row.previous, sha256=row.sha256,
    )  # fmt: skip
