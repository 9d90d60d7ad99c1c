"""What can be looked up in the catalog. Each look is one consistent view of it."""

import math
from typing import Final

from pydantic import ValidationError
from sqlalchemy import Connection

from cloud.registry.catalog import artifacts_needed
from cloud.registry.catalog.bounds import is_name, is_sha256, shown
from cloud.registry.catalog.changes import TrustPublished
from cloud.registry.catalog.settings import CatalogSettings
from cloud.registry.catalog.verify import verify
from cloud.registry.documents import (
    DataSet,
    Delta,
    Entry,
    Evaluation,
    Head,
    Model,
    ModelVersion,
    ReplicaState,
    Runner,
    StoredFile,
)
from cloud.registry.store import queries
from cloud.registry.store.database import RegistryDatabase
from cloud.registry.store.view import SqlView
from shared.config import in_words
from shared.errors import Malformed, NotTrusted, Unknown

ENTRIES_MAX: Final = 1_000
"""Entries of one read of the log, and of one `ingest`."""

_SEQ_MAX: Final = 2**62  # no database has a bigger number


class Reading:
    """Names may be any text; one that is here nowhere raises `Unknown`."""

    def __init__(self, database: RegistryDatabase, settings: CatalogSettings) -> None:
        self._database = database
        self._settings = settings

    def verify(self) -> Head:
        """Prove log and tables, to the log's end. Raises `NotTrusted`. In memory: 1 KB an entry."""
        try:
            return self._database.read(lambda c: verify(queries.whole_log(c), queries.rows(c)))
        except ValidationError as error:
            raise NotTrusted(
                f"a row was edited into what it cannot be: {in_words(error)}"
            ) from error

    def models(self) -> list[Model]:
        """In the order of their names."""
        return self._database.read(queries.models)

    def model(self, name: str) -> Model:
        return self._database.read(lambda connection: _model(connection, name))

    def versions(self, model: str) -> list[ModelVersion]:
        """Rising."""

        def look(connection: Connection) -> list[ModelVersion]:
            return list(queries.versions(connection, _model(connection, model).name))

        return self._database.read(look)

    def version(self, model: str, version: str) -> ModelVersion:
        return self._database.read(lambda connection: _version(connection, model, version))

    def evaluations(self, model: str, version: str) -> list[Evaluation]:
        """As they were queued."""

        def look(connection: Connection) -> list[Evaluation]:
            found = _version(connection, model, version)
            return list(queries.evaluations(connection, found.model, found.version))

        return self._database.read(look)

    def evaluation(self, evaluation_id: str) -> Evaluation:
        found = self._database.read(lambda c: SqlView(c).evaluation(evaluation_id))
        if found is None:
            raise Unknown(f"there is no evaluation {shown(evaluation_id)}")
        return found

    def data_sets(self) -> list[DataSet]:
        """In the order of names and versions."""
        return self._database.read(queries.data_sets)

    def data_set(self, name: str, version: int | None = None) -> DataSet:
        """None: the newest version."""
        found = self._database.read(lambda c: SqlView(c).data_set(name, version))
        if found is None:
            raise Unknown(f"there is no data set {shown(name)}{f' {version}' if version else ''}")
        return found

    def log(self, after: int, limit: int) -> list[Entry]:
        """Rising, from the entry after `after`; at most `ENTRIES_MAX`."""
        seq = max(0, min(after, _SEQ_MAX))
        return self._database.read(lambda c: queries.log(c, seq, _limit(limit)))

    def history(self, model: str, version: str | None = None, limit: int = 100) -> list[Entry]:
        """What the log says of the model, or of one version, newest first."""

        def look(connection: Connection) -> list[Entry]:
            if version is None:
                _model(connection, model)
            else:
                _version(connection, model, version)
            return queries.history(connection, model, version, _limit(limit))

        return self._database.read(look)

    def head(self) -> Head:
        return self._database.read(lambda c: SqlView(c).head())

    def deltas_to(self, sha256: str) -> list[Delta]:
        """None where there are none, or no such file."""
        if not is_sha256(sha256):
            return []
        return self._database.read(lambda c: queries.deltas(c, sha256))

    def trust_file(self, role: str, version: int | None = None) -> StoredFile:
        """None: the newest version."""
        found = self._database.read(lambda c: SqlView(c).trust(role, version))
        if found is None:
            raise Unknown(
                f"there is no trust metadata {shown(role)}{f' {version}' if version else ''}"
            )
        return found.file

    def trust_files(self) -> list[TrustPublished]:
        """Every version of every role, rising."""
        return self._database.read(lambda c: list(queries.trust_files(c)))

    def needed_artifacts(self, now: float | None = None) -> set[str]:
        """SHA-256 of all that versions, data sets, reports, deltas, trust and replicas need.

        With `now`, a replica that was not seen for `running_ttl_s` needs nothing any more.
        """
        since = -math.inf if now is None else now - self._settings.running_ttl_s

        def look(connection: Connection) -> set[str]:
            replicas = queries.replicas(connection)
            return artifacts_needed.needed(
                queries.versions(connection), queries.evaluations(connection),
                queries.data_sets(connection), queries.deltas(connection),
                queries.trust_files(connection),
                min((one.seq for one in replicas if one.seen_at >= since), default=None),
            )  # fmt: skip

        return self._database.read(look)

    def replicas(self) -> list[ReplicaState]:
        return self._database.read(queries.replicas)

    def runners(self, model: str | None = None) -> list[Runner]:
        """None: of every model."""
        if model is not None and not is_name(model):
            raise Unknown(f"there is no model {shown(model)}")
        return self._database.read(lambda c: queries.runners(c, model))


def _model(connection: Connection, name: str) -> Model:
    if (found := SqlView(connection).model(name)) is None:
        raise Unknown(f"there is no model {shown(name)}")
    return found


def _version(connection: Connection, model: str, version: str) -> ModelVersion:
    _model(connection, model)
    if (found := SqlView(connection).version(model, version)) is None:
        raise Unknown(f"there is no version {shown(version)} of {model}")
    return found


def _limit(limit: int) -> int:
    if limit < 1:
        raise Malformed(f"limit is {limit}; ask for 1 to {ENTRIES_MAX}")
    return min(limit, ENTRIES_MAX)
