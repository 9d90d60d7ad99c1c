import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from prometheus_client import CollectorRegistry

from cloud.registry.api.metrics import RegistryMetrics
from cloud.registry.artifacts.artifacts import Artifacts
from cloud.registry.artifacts.settings import ArtifactSettings
from cloud.registry.catalog.catalog import Catalog
from cloud.registry.catalog.commands import AddDelta, Delete, Reject, SetModel
from cloud.registry.collecting import Collecting
from cloud.registry.documents import Delta, Gate, ReplicaState
from cloud.registry.registry import Registry
from cloud.registry.replication.replication import Replication
from cloud.registry.settings import Upkeep
from cloud.registry.store.database import RegistryDatabase
from tests.cloud.registry.catalog.world import register

DAY_S = 86_400.0
NOW = 4e9  # no artifact of these tests is young then


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    database = RegistryDatabase(f"sqlite:///{tmp_path / 'catalog.db'}")
    database.open()
    yield Catalog(database)
    database.close()


def test_a_replica_that_never_comes_back_holds_no_artifact_for_ever(
    tmp_path: Path, catalog: Catalog
) -> None:
    """A delta from a deleted version is needed as long as a replica has yet to copy that one."""
    artifacts = Artifacts(ArtifactSettings(), tmp_path)
    content = asyncio.run(artifacts.put_bytes(b"a delta"))
    catalog.apply(SetModel("m", "ann", Gate()), "ann", NOW)
    applied = catalog.apply(register("1.0.0"), "bob", NOW)
    assert applied.version is not None
    graph = applied.version.files[0].sha256
    catalog.apply(register("1.1.0"), "bob", NOW)
    to = next(
        one.sha256
        for one in catalog.version("m", "1.1.0").files
        if one.path == applied.version.files[0].path
    )
    delta = Delta(from_sha256=graph, to_sha256=to, sha256=content, bytes=7)
    catalog.apply(AddDelta(delta), "ann", NOW)
    catalog.report_replica(
        ReplicaState(name="eu", url="", epoch=1, seq=1, artifacts_missing=0, seen_at=NOW)
    )
    catalog.apply(Reject("m", "1.0.0", "bad"), "eve", NOW)
    catalog.apply(Delete("m", "1.0.0", "no room"), "ann", NOW)

    def removed(now: float) -> int:
        registry = Registry("r", catalog, artifacts, cast("Replication", None), lambda: now)
        collecting = Collecting(registry, Upkeep(), RegistryMetrics(CollectorRegistry()))
        return len(asyncio.run(collecting.collect(dry_run=True, actor="ann")).removed)

    assert removed(NOW + 29 * DAY_S) == 0
    assert removed(NOW + 31 * DAY_S) == 1
