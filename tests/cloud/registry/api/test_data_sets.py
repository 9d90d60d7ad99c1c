"""Labelled evaluation data over HTTP: checked when it is added, never changed."""

from io import BytesIO

import numpy as np

from cloud.gateway.roles import Role
from tests.cloud.registry.pushing import sha256, upload
from tests.cloud.registry.servers import RegistryProcess


def npz(rows: int = 40, **arrays: object) -> bytes:
    file = BytesIO()
    plain = {
        "inputs": np.zeros((rows, 4, 4), np.uint8),
        "labels": np.arange(rows, dtype=np.int64) % 3,
    }
    np.savez(file, **{**plain, **arrays})  # type: ignore[arg-type]  # as the test needs it
    return file.getvalue()


def test_a_data_set_is_added_once_and_in_turn(running: RegistryProcess) -> None:
    content, other = npz(), npz(41)
    path = "/v1/data-sets/shirts"
    asked = {"sha256": sha256(content), "bytes": len(content)}
    assert running.call("PUT", f"{path}/1", asked, Role.TRAINER).status == 404  # not uploaded
    assert upload(running, content).status == upload(running, other).status == 204
    assert running.call("PUT", f"{path}/2", asked, Role.TRAINER).status == 409  # the first is 1
    added = running.call("PUT", f"{path}/1", asked, Role.TRAINER)
    assert (added.status, added.json["rows"], added.json["pushed_by"]) == (200, 40, "a-trainer")
    assert running.call("PUT", f"{path}/1", asked, Role.TRAINER).json == added.json
    changed = {"sha256": sha256(other)}
    assert running.call("PUT", f"{path}/1", changed, Role.TRAINER).status == 409
    assert running.call("PUT", f"{path}/2", changed, Role.TRAINER).json["version"] == 2
    assert running.get(path).json["version"] == 2
    assert running.get(f"{path}/1").json == added.json
    listed = running.get("/v1/data-sets").json["data_sets"]
    assert [(one["name"], one["version"]) for one in listed] == [("shirts", 1), ("shirts", 2)]


def test_what_is_none_is_refused(running: RegistryProcess) -> None:
    content = npz(42)
    for bad in (b"PK", npz(3, labels=np.zeros(2, np.int64)), npz(3, inputs=np.array(["a"] * 3))):
        assert upload(running, bad).status == 204
        asked = {"sha256": sha256(bad)}
        assert running.call("PUT", "/v1/data-sets/bad/1", asked, Role.TRAINER).status == 400
    assert upload(running, content).status == 204
    for wrong in ({"rows": 41}, {"bytes": 7}):
        asked = {"sha256": sha256(content), **wrong}
        assert running.call("PUT", "/v1/data-sets/bad/1", asked, Role.TRAINER).status == 400
    assert running.get("/v1/data-sets/bad").status == 404
