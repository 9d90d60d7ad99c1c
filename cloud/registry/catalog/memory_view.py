"""The catalog in memory: what a replay of the log comes to. Pure.

`verify.py` holds the tables against it; the tests of the decisions run on it.
"""

from typing import assert_never

from cloud.registry.catalog.bounds import rank
from cloud.registry.catalog.chain import EMPTY, head_of
from cloud.registry.catalog.changes import DataSetAdded, DeltaAdded, TrustPublished
from cloud.registry.catalog.project import Row, project
from cloud.registry.documents import (
    DataSet,
    Delta,
    Entry,
    Evaluation,
    Head,
    Model,
    ModelVersion,
    Runner,
)

Key = tuple[str | int, ...]
_WAITING_MAX = 100


def key_of(row: Row) -> Key:
    """Of the row among all rows."""
    match row:
        case Model():
            return ("model", row.name)
        case ModelVersion():
            return ("version", row.model, rank(row.version))
        case Evaluation():
            return ("evaluation", row.id)
        case DataSetAdded():
            return ("data set", row.data_set.name, row.data_set.version)
        case DeltaAdded():
            return ("delta", row.delta.to_sha256, row.delta.from_sha256)
        case TrustPublished():
            return ("trust", row.role, row.version)
    assert_never(row)


class MemoryView:
    """A `View` that grows by log entries. `runners` are not of the log: whoever has them sets them."""

    def __init__(self) -> None:
        self.rows: dict[Key, Row] = {}  # an evaluation stays in the order of its queueing
        self.runners: list[Runner] = []
        self._head = EMPTY

    def append(self, entry: Entry) -> None:
        """Take the next entry. Raises as `project`."""
        self.rows |= {key_of(row): row for row in project(entry, self)}
        self._head = head_of(entry)

    def head(self) -> Head:
        return self._head

    def model(self, name: str) -> Model | None:
        found = self.rows.get(("model", name))
        return found if isinstance(found, Model) else None

    def models_count(self) -> int:
        return sum(isinstance(row, Model) for row in self.rows.values())

    def version(self, model: str, version: str) -> ModelVersion | None:
        return next((one for one in self._versions(model) if one.version == version), None)

    def versions_count(self, model: str) -> int:
        return len(self._versions(model))

    def launched(self, model: str) -> list[ModelVersion]:
        found = [one for one in self._versions(model) if one.launches]
        return sorted(found, key=lambda one: one.launches[-1].number, reverse=True)

    def heads_on(self, model: str, version: str) -> list[str]:
        return [
            f"{row.model} {row.version}"
            for row in self.rows.values()
            if isinstance(row, ModelVersion) and not row.deleted and row.backbone is not None
            and (row.backbone.name, row.backbone.version) == (model, version)
        ]  # fmt: skip

    def running(self, model: str, version: str, since: float) -> list[str]:
        return [
            runner.name
            for runner in self.runners
            if (runner.model, runner.version) == (model, version) and runner.seen_at >= since
        ]

    def evaluation(self, evaluation_id: str) -> Evaluation | None:
        found = self.rows.get(("evaluation", evaluation_id))
        return found if isinstance(found, Evaluation) else None

    def open_evaluations_count(self) -> int:
        return len(self._open())

    def open_evaluations(self, model: str, version: str) -> list[Evaluation]:
        return [one for one in self._open() if (one.model, one.version) == (model, version)]

    def waiting_evaluations(self, now: float, lease_s_max: float) -> list[Evaluation]:
        return [
            one
            for one in self._open()
            if one.lease_until is None or not now <= one.lease_until <= now + lease_s_max
        ][:_WAITING_MAX]

    def data_set(self, name: str, version: int | None) -> DataSet | None:
        found = [
            row.data_set
            for row in self.rows.values()
            if isinstance(row, DataSetAdded) and row.data_set.name == name
            and version in {None, row.data_set.version}
        ]  # fmt: skip
        return max(found, key=lambda one: one.version, default=None)

    def data_sets_count(self) -> int:
        return sum(isinstance(row, DataSetAdded) for row in self.rows.values())

    def delta(self, from_sha256: str, to_sha256: str) -> Delta | None:
        found = self.rows.get(("delta", to_sha256, from_sha256))
        return found.delta if isinstance(found, DeltaAdded) else None

    def deltas_count(self, to_sha256: str) -> int:
        return sum(
            isinstance(row, DeltaAdded) and row.delta.to_sha256 == to_sha256
            for row in self.rows.values()
        )

    def trust(self, role: str, version: int | None) -> TrustPublished | None:
        found = [
            row
            for row in self.rows.values()
            if isinstance(row, TrustPublished)
            and row.role == role
            and version in {None, row.version}
        ]
        return max(found, key=lambda one: one.version, default=None)

    def _versions(self, model: str) -> list[ModelVersion]:
        return [
            row
            for row in self.rows.values()
            if isinstance(row, ModelVersion) and row.model == model
        ]

    def _open(self) -> list[Evaluation]:
        return [
            row
            for row in self.rows.values()
            if isinstance(row, Evaluation) and row.state in {"queued", "running"}
        ]
