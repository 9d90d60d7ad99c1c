"""The registry says whether a version may be rolled out; where it is away, nobody does."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from cloud.fleet.released import Released
from cloud.fleet.settings import RegistryAsk
from shared.errors import Conflict, Malformed, Unavailable, Unknown
from tests.cloud.registry.pushing import MODEL, candidate, make_model, push
from tests.cloud.registry.servers import RegistryProcess, registry
from tests.cloud.registry.trust_keys import TrustKeys


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    """With version 1.0.0 released, and 1.1.0 pushed."""
    folder = tmp_path_factory.mktemp("registry")
    keys = TrustKeys(folder / "keys", releases_online=True)
    with registry(folder / "home", f"{keys.settings}[evaluation]\nprocesses = 0\n") as process:
        make_model(process)
        candidate(process, folder / "bundle")
        keys.publish(process, MODEL)
        path = f"/v1/models/{MODEL}/versions/1.0.0/release"
        assert process.call("POST", path, {"comment": "it is good"}).status == 200
        push(process, folder / "other", "1.1.0")
        yield process


def asks(home: RegistryProcess, key: Path | None = None) -> Released:
    return Released(RegistryAsk(urls=(home.url,), api_key_file=key or home.key_file("viewer")))


def manifest(released: Released, version: str, given: str | None = None) -> str:
    return asyncio.run(released.manifest(MODEL, version, given))


def test_a_released_version_has_a_manifest(home: RegistryProcess) -> None:
    found = home.get(f"/v1/models/{MODEL}/versions/1.0.0").json["manifest"]["sha256"]
    assert manifest(asks(home), "1.0.0") == found
    assert manifest(asks(home), "1.0.0", found) == found


def test_another_hash_than_the_registry_has_is_refused(home: RegistryProcess) -> None:
    with pytest.raises(Conflict, match="leave it out"):
        manifest(asks(home), "1.0.0", "c" * 64)


def test_what_is_not_released_is_refused(home: RegistryProcess) -> None:
    with pytest.raises(Conflict, match=r"1\.1\.0 is .*, not released"):
        manifest(asks(home), "1.1.0")
    with pytest.raises(Unknown):
        manifest(asks(home), "9.9.9")


def test_a_key_that_is_not_taken_is_this_fleet_s_trouble(
    home: RegistryProcess, tmp_path: Path
) -> None:
    (tmp_path / "key").write_text("hy_nonsense")
    with pytest.raises(Unavailable, match="does not answer this fleet"):
        manifest(asks(home, tmp_path / "key"), "1.0.0")


def test_where_nobody_can_be_asked_the_hash_must_be_given() -> None:
    assert manifest(Released(None), "1.0.0", "a" * 64) == "a" * 64
    with pytest.raises(Malformed, match="to ask; give it"):
        manifest(Released(None), "1.0.0")


def test_one_that_is_away_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cloud.fleet.released._PATIENCE_S", 0.2)
    away = Released(RegistryAsk(urls=("http://127.0.0.1:9",)))
    with pytest.raises(Unavailable, match="the registry is away"):
        manifest(away, "1.0.0")
