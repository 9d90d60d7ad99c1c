"""Artifacts over HTTP: whole, in parts, and only to those who may see them."""

import os
from pathlib import Path

import pytest

from cloud.gateway.roles import Role
from tests.cloud.registry.pushing import candidate, make_model, sha256, upload
from tests.cloud.registry.servers import RegistryProcess
from tests.cloud.registry.trust_keys import TrustKeys

CONTENT = os.urandom(3 * 1024 * 1024 + 17)


@pytest.fixture(scope="module")
def path(running: RegistryProcess) -> str:
    assert upload(running, CONTENT).status == 204
    return f"/v1/artifacts/{sha256(CONTENT)}"


def test_the_whole_file(running: RegistryProcess, path: str) -> None:
    reply = running.get(path)
    assert (reply.status, reply.body) == (200, CONTENT)
    assert reply.headers["etag"] == f'"{sha256(CONTENT)}"'
    assert reply.headers["accept-ranges"] == "bytes"
    assert reply.headers["content-length"] == str(len(CONTENT))
    assert {"x-request-id", "traceparent"} <= set(reply.headers)
    assert "immutable" in reply.headers["cache-control"]


@pytest.mark.parametrize(("start", "end"), [(0, 1), (1_000_000, 2_500_001), (5, len(CONTENT))])
def test_a_part_of_it(running: RegistryProcess, path: str, start: int, end: int) -> None:
    reply = running.get(path, Range=f"bytes={start}-{end - 1}")
    assert (reply.status, reply.body) == (206, CONTENT[start:end])
    assert reply.headers["content-range"] == f"bytes {start}-{end - 1}/{len(CONTENT)}"


def test_a_part_that_it_has_not(running: RegistryProcess, path: str) -> None:
    reply = running.get(path, Range=f"bytes={len(CONTENT)}-")
    assert (reply.status, reply.body) == (416, b"")
    assert reply.headers["content-range"] == f"bytes */{len(CONTENT)}"


def test_not_sent_again(running: RegistryProcess, path: str) -> None:
    reply = running.get(path, If_None_Match=f'"{sha256(CONTENT)}"')
    assert (reply.status, reply.body) == (304, b"")


def test_its_head(running: RegistryProcess, path: str) -> None:
    reply = running.call("HEAD", path, role=Role.VIEWER)
    assert (reply.status, reply.body) == (200, b"")
    assert reply.headers["content-length"] == str(len(CONTENT))


def test_what_is_not_here(running: RegistryProcess) -> None:
    for method in ("GET", "HEAD"):
        assert running.call(method, f"/v1/artifacts/{'0' * 64}", role=Role.VIEWER).status == 404


def test_which_are_missing(running: RegistryProcess, path: str) -> None:
    here, gone = sha256(CONTENT), "1" * 64
    reply = running.call(
        "POST", "/v1/artifacts/missing", {"sha256": [gone, here, gone]}, Role.TRAINER
    )
    assert reply.json == {"missing": [gone]}
    refused = running.call(
        "POST", "/v1/artifacts/missing", {"sha256": [f"{i:064x}" for i in range(10_001)]}, "trainer"
    )
    assert refused.status == 400


def test_devices_see_what_is_released_and_nothing_else(
    running: RegistryProcess, model: str, trust_keys: TrustKeys, tmp_path: Path
) -> None:
    make_model(running, model)
    pushed = candidate(running, tmp_path / "one", model=model, dictionary=os.urandom(100))
    own = [one for one in pushed["files"] if one["path"] == "payload.dict"]
    files = [pushed["manifest"], *own]  # the others are other bundles', too
    assert len(files) == 2

    def seen(role: Role) -> set[int]:
        return {running.get(f"/v1/artifacts/{file['sha256']}", role).status for file in files}

    assert seen(Role.FETCH) == {404}
    assert running.get(f"/v1/artifacts/{files[0]['sha256']}/deltas", Role.FETCH).status == 404
    assert seen(Role.VIEWER) == {200}
    release = f"/v1/models/{model}/versions/1.0.0/release"
    signed = trust_keys.release(running, model, "1.0.0", pushed["manifest"])
    assert running.call("POST", release, {"comment": "go", "metadata": signed}).status == 200
    assert seen(Role.FETCH) == {200}
    # the evaluation's report, a data set, an unreleased version: still not
    assert upload(running, b"something else").status == 204
    assert running.get(f"/v1/artifacts/{sha256(b'something else')}", Role.FETCH).status == 404
    retired = trust_keys.retirement(running, model, "1.0.0")
    retire = f"/v1/models/{model}/versions/1.0.0/retire"
    assert running.call("POST", retire, {"comment": "bad", "metadata": retired}).status == 200
    assert seen(Role.FETCH) == {404}
    assert running.get(f"/tuf/2.model-{model}.json", Role.FETCH).status == 200


def test_a_store_that_is_away_does_not_say_where_it_lay(tmp_path: Path) -> None:
    with RegistryProcess(tmp_path, "[evaluation]\nprocesses = 0\n") as registry:
        content = b"a file"
        assert upload(registry, content).status == 204
        there = registry.state_dir / "artifacts" / "sha256"
        there.rename(there.with_name("away"))
        there.write_bytes(b"")
        reply = registry.get(f"/v1/artifacts/{sha256(content)}")
        assert (reply.status, reply.json["detail"]) == (503, ".../artifacts: Not a directory")
        assert str(registry.state_dir) in registry.log.read_text()
