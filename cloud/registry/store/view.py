"""The tables as decisions see them, in one transaction, and the writing of rows and log entries."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar, assert_never

from sqlalchemy import Connection, Table, func, insert, select
from sqlalchemy.dialects import postgresql, sqlite

from cloud.document import Document
from cloud.registry.catalog.bounds import is_id, is_name, is_role, is_sha256, is_version, rank
from cloud.registry.catalog.chain import EMPTY, canonical, head_of
from cloud.registry.catalog.changes import DataSetAdded, DeltaAdded, TrustPublished
from cloud.registry.catalog.project import Row as Projected
from cloud.registry.documents import (
    DataSet,
    Delta,
    Entry,
    Evaluation,
    Head,
    Model,
    ModelVersion,
    ReplicaState,
)
from cloud.registry.store import schema as s

D = TypeVar("D", bound=Document)
_INSERTS: Final[Mapping[str, Any]] = MappingProxyType({
    "sqlite": sqlite.insert, "postgresql": postgresql.insert,
})  # fmt: skip
_WAITING_MAX = 100
_RUNNING_MAX = 100
_INT_MAX = 2**31 - 1  # of an Integer column


class SqlView:
    """A `View` (`cloud/registry/catalog/view.py`) of a connection.

    Names from outside are looked at before the database is: it refuses some (NUL) with an error.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._head: Head | None = None  # once it was looked up; nobody else writes

    def head(self) -> Head:
        if self._head is None:
            self._head = self._look_up_head()
        return self._head

    def _look_up_head(self) -> Head:
        row = self._connection.execute(
            select(s.log.c.epoch, s.log.c.seq, s.log.c.sha256).order_by(s.log.c.seq.desc()).limit(1)
        ).one_or_none()
        return EMPTY if row is None else Head(epoch=row.epoch, seq=row.seq, sha256=row.sha256)

    def model(self, name: str) -> Model | None:
        return self._one(Model, s.models, s.models.c.name == name) if is_name(name) else None

    def models_count(self) -> int:
        return self._count(s.models)

    def version(self, model: str, version: str) -> ModelVersion | None:
        if not (is_name(model) and is_version(version)):
            return None
        t = s.versions.c
        return self._one(ModelVersion, s.versions, t.model == model, t.version == version)

    def versions_count(self, model: str) -> int:
        return self._count(s.versions, s.versions.c.model == model)

    def launched(self, model: str) -> list[ModelVersion]:
        t = s.versions.c
        return self._many(
            ModelVersion, s.versions, t.model == model, t.number.is_not(None),
            order=t.number.desc(),
        )  # fmt: skip

    def heads_on(self, model: str, version: str) -> list[str]:
        t = s.versions.c
        rows = self._connection.execute(
            select(t.model, t.version)
            .where(t.backbone == f"{model} {version}", t.deleted.is_(False))
            .order_by(t.model, t.rank)
            .limit(_RUNNING_MAX)
        )
        return [f"{row.model} {row.version}" for row in rows]

    def running(self, model: str, version: str, since: float) -> list[str]:
        t = s.runners.c
        rows = self._connection.execute(
            select(t.name)
            .where(t.model == model, t.version == version, t.seen_at >= since)
            .order_by(t.name)
            .limit(_RUNNING_MAX)
        )
        found = [row.name for row in rows]
        for replica in self._many(ReplicaState, s.replicas, order=s.replicas.c.name):
            found += [
                f"{runner.name} (at {replica.name})"
                for runner in replica.running
                if (runner.model, runner.version) == (model, version) and runner.seen_at >= since
            ]
        return found[:_RUNNING_MAX]

    def evaluation(self, evaluation_id: str) -> Evaluation | None:
        if not is_id(evaluation_id):
            return None
        return self._one(Evaluation, s.evaluations, s.evaluations.c.id == evaluation_id)

    def open_evaluations_count(self) -> int:
        return self._count(s.evaluations, s.evaluations.c.open.is_(True))

    def open_evaluations(self, model: str, version: str) -> list[Evaluation]:
        t = s.evaluations.c
        return self._many(
            Evaluation, s.evaluations, t.model == model, t.version == version, t.open.is_(True),
            order=t.queued_seq,
        )  # fmt: skip

    def waiting_evaluations(self, now: float, lease_s_max: float) -> list[Evaluation]:
        t = s.evaluations.c
        over = t.lease_until.is_(None) | ~t.lease_until.between(now, now + lease_s_max)
        return self._many(
            Evaluation, s.evaluations, t.open.is_(True), over, order=t.queued_seq,
            limit=_WAITING_MAX,
        )  # fmt: skip

    def data_set(self, name: str, version: int | None) -> DataSet | None:
        if not is_name(name):
            return None
        found = self._numbered(DataSetAdded, s.data_sets, s.data_sets.c.name == name, version)
        return found.data_set if found is not None else None

    def data_sets_count(self) -> int:
        return self._count(s.data_sets)

    def delta(self, from_sha256: str, to_sha256: str) -> Delta | None:
        if not (is_sha256(from_sha256) and is_sha256(to_sha256)):
            return None
        t = s.deltas.c
        found = self._one(
            DeltaAdded, s.deltas, t.from_sha256 == from_sha256, t.to_sha256 == to_sha256
        )
        return found.delta if found is not None else None

    def deltas_count(self, to_sha256: str) -> int:
        return self._count(s.deltas, s.deltas.c.to_sha256 == to_sha256)

    def trust(self, role: str, version: int | None) -> TrustPublished | None:
        if not is_role(role):
            return None
        return self._numbered(TrustPublished, s.trust, s.trust.c.role == role, version)

    def put(self, row: Projected, seq: int) -> None:
        """Write a row in the place of the one of its key; `seq` is of the entry that made it."""
        document = row.model_dump_json()
        match row:
            case Model():
                self.upsert(s.models, {"name": row.name}, document=document)
            case ModelVersion():
                backbone = row.backbone
                self.upsert(
                    s.versions, {"model": row.model, "version": row.version},
                    rank=rank(row.version), deleted=row.deleted, document=document,
                    number=row.launches[-1].number if row.launches else None,
                    backbone=f"{backbone.name} {backbone.version}" if backbone else None,
                )  # fmt: skip
            case Evaluation():
                first = {"model": row.model, "version": row.version, "queued_seq": seq}
                self.upsert(
                    s.evaluations, {"id": row.id}, first, lease_until=row.lease_until,
                    open=row.state in {"queued", "running"}, document=document,
                )  # fmt: skip
            case DataSetAdded():
                key: dict[str, Any] = {"name": row.data_set.name, "version": row.data_set.version}
                self.upsert(s.data_sets, key, document=document)
            case DeltaAdded():
                delta = row.delta
                key = {"to_sha256": delta.to_sha256, "from_sha256": delta.from_sha256}
                self.upsert(s.deltas, key, document=document)
            case TrustPublished():
                self.upsert(s.trust, {"role": row.role, "version": row.version}, document=document)
            case _:
                assert_never(row)

    def renew(self, evaluation_id: str, lease_until: float) -> None:
        """Move the end of a lease; the document goes on saying what the log says."""
        self.update(s.evaluations, {"id": evaluation_id}, lease_until=lease_until)

    def append(self, entry: Entry) -> None:
        """Write the next line of the log."""
        model, version = entry.change.get("model"), entry.change.get("version")
        self._connection.execute(
            insert(s.log).values(
                seq=entry.seq, epoch=entry.epoch, at=entry.at, actor=entry.actor, kind=entry.kind,
                model=model if isinstance(model, str) else None,
                version=version if isinstance(version, str) else None,
                change=canonical(entry.change).decode(), previous=entry.previous,
                sha256=entry.sha256,
            )
        )  # fmt: skip
        self._head = head_of(entry)

    def upsert(
        self,
        table: Table,
        key: dict[str, Any],
        first: Mapping[str, Any] = MappingProxyType({}),
        **values: Any,
    ) -> None:
        """Write a row in the place of the one of its key; `first` only where there is none."""
        new = _INSERTS[self._connection.dialect.name](table).values(**key, **first, **values)
        self._connection.execute(new.on_conflict_do_update(index_elements=[*key], set_=values))

    def update(self, table: Table, key: dict[str, Any], **values: Any) -> bool:
        """False where there is none."""
        where = [table.c[name] == value for name, value in key.items()]
        return bool(
            self._connection.execute(table.update().where(*where).values(**values)).rowcount
        )

    def _one(self, kind: type[D], table: Table, *where: Any) -> D | None:
        found = self._connection.execute(select(table.c.document).where(*where)).scalar()
        return None if found is None else kind.model_validate_json(found)

    def _many(
        self, kind: type[D], table: Table, *where: Any, order: Any, limit: int | None = None
    ) -> list[D]:
        query = select(table.c.document).where(*where).order_by(order).limit(limit)
        return [kind.model_validate_json(row.document) for row in self._connection.execute(query)]

    def _numbered(self, kind: type[D], table: Table, where: Any, version: int | None) -> D | None:
        if version is None:
            found = self._many(kind, table, where, order=table.c.version.desc(), limit=1)
            return found[0] if found else None
        if not 0 < version <= _INT_MAX:
            return None
        return self._one(kind, table, where, table.c.version == version)

    def _count(self, table: Table, *where: Any) -> int:
        query = select(func.count()).select_from(table).where(*where)
        return int(self._connection.execute(query).scalar_one())
