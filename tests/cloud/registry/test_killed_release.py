"""kill -9 between the steps of a release: what devices and the catalog then say is one state."""

import asyncio
import shutil
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cloud.registry.artifacts.artifacts import Artifacts
from cloud.registry.artifacts.settings import ArtifactSettings
from cloud.registry.catalog.catalog import Catalog
from cloud.registry.documents import State
from cloud.registry.store.database import RegistryDatabase
from shared.errors import Malformed, NotTrusted, Unknown
from shared.trust.names import parse_file_name
from shared.trust.store import TrustStore
from tests.cloud.keyed_process import DEADLINE_S, ROOT
from tests.cloud.registry.killed_release import AFTER, BEFORE
from tests.cloud.registry.killed_release import release as release_here
from tests.cloud.registry.pushing import MODEL, candidate, make_model
from tests.cloud.registry.servers import RegistryProcess
from tests.cloud.registry.trust_keys import TrustKeys

OLD, NEW = "1.0.0", "1.0.1"


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A registry's folder with OLD released and NEW ready to be, and no process on it."""
    folder = tmp_path_factory.mktemp("registry")
    keys = TrustKeys(folder / "keys", releases_online=True)
    settings = keys.settings + "[evaluation]\nprocesses = 0\n"
    with RegistryProcess(folder, settings) as registry:
        keys.publish(registry, MODEL)
        make_model(registry)
        candidate(registry, folder / "old", OLD)
        path = f"/v1/models/{MODEL}/versions/{OLD}/release"
        assert registry.call("POST", path, {"comment": "go"}).status == 200
        candidate(registry, folder / "new", NEW, shift=1)
        assert registry.stop() == 0
    return folder


def killed_at(step: str, folder: Path) -> int:
    return subprocess.run(
        [sys.executable, "-m", "tests.cloud.registry.killed_release", str(folder), step, MODEL, NEW],
        cwd=ROOT, timeout=DEADLINE_S, check=False,
    ).returncode  # fmt: skip


def said_by_catalog(folder: Path) -> str | None:
    database = RegistryDatabase(f"sqlite:///{folder / 'state' / 'catalog.db'}")
    try:
        catalog = Catalog(database)
        catalog.verify()
        states = {one.version: one.state for one in catalog.versions(MODEL)}
        assert (states[NEW] is State.RELEASED) == (catalog.model(MODEL).current == NEW)
        return catalog.model(MODEL).current
    finally:
        database.close()


def said_to_devices(folder: Path, seen: Path) -> str | None:
    """What a device that has never been here takes from what is published."""
    database = RegistryDatabase(f"sqlite:///{folder / 'state' / 'catalog.db'}")
    catalog = Catalog(database)
    artifacts = Artifacts(ArtifactSettings(), folder / "state")

    async def fetch(name: str, bytes_max: int) -> bytes | None:
        try:
            file = catalog.trust_file(*parse_file_name(name))
        except Unknown:
            return None
        return await artifacts.read(file.sha256, bytes_max)

    try:
        store = TrustStore(seen, (folder / "keys" / "1.root.json").read_bytes())
        trusted = asyncio.run(store.refresh(fetch, MODEL, datetime.now(UTC)))
        assert trusted.stale is None
        return None if trusted.newest is None else trusted.newest.version
    finally:
        database.close()


@pytest.mark.parametrize("step", [*BEFORE, *AFTER])
def test_a_killed_release_leaves_the_old_or_the_new(
    released: Path, tmp_path: Path, step: str
) -> None:
    folder = tmp_path / "registry"
    shutil.copytree(released, folder)
    assert killed_at(step, folder) == -signal.SIGKILL
    expected = OLD if step in BEFORE else NEW
    assert said_by_catalog(folder) == expected
    assert said_to_devices(folder, tmp_path / "before") == expected
    asyncio.run(release_here(folder, "none", MODEL, NEW))  # asked for again, it is done once
    assert said_by_catalog(folder) == NEW
    assert said_to_devices(folder, tmp_path / "after") == NEW
    database = RegistryDatabase(f"sqlite:///{folder / 'state' / 'catalog.db'}")
    history = Catalog(database).history(MODEL, NEW, 100)
    database.close()
    assert [entry.kind for entry in history].count("version.released") == 1


def test_a_device_sees_no_release_that_was_not_signed(released: Path, tmp_path: Path) -> None:
    """The check that the test above rests on can fail."""
    folder = tmp_path / "registry"
    shutil.copytree(released, folder)
    for path in (folder / "state" / "artifacts" / "sha256").rglob("*"):
        if path.is_file() and b"timestamp.json" not in (content := path.read_bytes()):
            path.write_bytes(content.replace(b"snapshot", b"snapsh0t"))
    with pytest.raises((NotTrusted, Malformed)):
        said_to_devices(folder, tmp_path / "seen")
