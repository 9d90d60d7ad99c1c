"""The way of a version over HTTP: registered, approved, released, retired, deleted."""

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from cloud.gateway.roles import Role
from shared.delta.decoder import apply
from tests.cloud.keyed_process import Reply, until
from tests.cloud.registry.pushing import (
    MODEL,
    candidate,
    end_evaluation,
    make_model,
    push,
    sha256,
    upload,
)
from tests.cloud.registry.servers import RegistryProcess
from tests.cloud.registry.trust_keys import TrustKeys


def of(model: str, version: str = "1.0.0") -> str:
    return f"/v1/models/{model}/versions/{version}"


def release(registry: RegistryProcess, keys: TrustKeys, pushed: Any, **headers: str) -> Reply:
    signed = keys.release(registry, pushed["model"], pushed["version"], pushed["manifest"])
    body = {"comment": "go", "metadata": signed}
    return registry.call(
        "POST", of(pushed["model"], pushed["version"]) + "/release", body, **headers
    )


def newest(registry: RegistryProcess) -> int:
    return int(registry.get("/v1/registry").json["head"]["seq"])


def kinds(registry: RegistryProcess, after: int) -> list[str]:
    """Of the entries since then; deltas are made when there is time."""
    entries = registry.get(f"/v1/log?after={after}&limit=500").json["entries"]
    return [entry["kind"] for entry in entries if entry["kind"] != "delta.added"]


def test_registering_queues_the_evaluation(
    running: RegistryProcess, model: str, tmp_path: Path
) -> None:
    make_model(running, model)
    pushed = push(running, tmp_path / "one", model=model)
    assert (pushed["state"], pushed["pushed_by"]) == ("trained", "a-trainer")
    (queued,) = running.get(of(model) + "/evaluations").json["evaluations"]
    assert (queued["state"], queued["queued_by"]) == ("queued", "a-trainer")
    assert running.get(f"/v1/evaluations/{queued['id']}").json == queued
    assert running.get(f"/v1/evaluations/{queued['id']}/report.html").status == 404
    again = running.call(
        "PUT", of(model), {"manifest_sha256": pushed["manifest"]["sha256"]}, "trainer"
    )
    assert (again.status, again.json) == (200, pushed)  # the answer to the first one was lost
    entries = running.get(f"/v1/models/{model}/history").json["entries"]
    assert [one["kind"] for one in entries].count("version.registered") == 1


def test_what_is_not_whole_is_not_registered(
    running: RegistryProcess, model: str, tmp_path: Path
) -> None:
    make_model(running, model)
    pushed = push(running, tmp_path / "one", model=model)
    path = of(model, "1.0.1")
    named_otherwise = {"manifest_sha256": pushed["manifest"]["sha256"]}
    assert running.call("PUT", path, named_otherwise, "trainer").status == 400
    assert running.call("PUT", path, {"manifest_sha256": "0" * 64}, "trainer").status == 404
    assert upload(running, b"{}").status == 204
    assert running.call("PUT", path, {"manifest_sha256": sha256(b"{}")}, "trainer").status == 400
    manifest = (tmp_path / "one" / "manifest.json").read_bytes()
    lacking = manifest.replace(b"1.0.0", b"1.0.1").replace(
        pushed["files"][0]["sha256"].encode(), b"4" * 64
    )
    assert upload(running, lacking).status == 204
    refused = running.call("PUT", path, {"manifest_sha256": sha256(lacking)}, "trainer")
    assert (refused.status, "is not here; upload it" in refused.json["detail"]) == (404, True)
    longer = manifest.replace(b"1.0.0", b"1.0.1").replace(
        f'"bytes":{pushed["files"][0]["bytes"]}'.encode(), b'"bytes":7'
    ).replace(f'"bytes": {pushed["files"][0]["bytes"]}'.encode(), b'"bytes": 7')  # fmt: skip
    assert longer != manifest.replace(b"1.0.0", b"1.0.1")
    assert upload(running, longer).status == 204
    assert running.call("PUT", path, {"manifest_sha256": sha256(longer)}, "trainer").status == 400
    assert [
        one["version"] for one in running.get(f"/v1/models/{model}/versions").json["versions"]
    ] == ["1.0.0"]


def test_a_release_with_everything_it_needs(
    running: RegistryProcess, model: str, trust_keys: TrustKeys, tmp_path: Path
) -> None:
    make_model(running, model, approval="person")
    pushed = push(running, tmp_path / "one", model=model)
    refused = release(running, trust_keys, pushed)
    assert refused.status == 409
    for lacking in ("not a candidate", "no evaluation of it has ended", "no approver"):
        assert lacking in refused.json["detail"]
    end_evaluation(running, model)
    assert running.get(of(model) + "/checklist").json == {
        "missing": ["no approver has approved it, as the gate asks; hybridge model approve"]
    }
    assert release(running, trust_keys, pushed).status == 409
    silent = running.call("POST", of(model) + "/approve", {}, Role.APPROVER)
    assert silent.status == 400  # a word is asked for
    approved = running.call("POST", of(model) + "/approve", {"comment": "fine"}, Role.APPROVER)
    assert approved.json["approval"]["by"] == "a-approver"
    assert running.get(of(model) + "/checklist").json == {"missing": []}
    before = newest(running)
    done = release(running, trust_keys, pushed)
    assert (done.status, done.json["state"]) == (200, "released")
    assert done.headers["etag"] == f'"{done.json["revision"]}"'
    assert kinds(running, before) == [*["trust.published"] * 3, "version.released"]
    assert running.get(f"/v1/models/{model}").json["current"] == "1.0.0"
    launch = done.json["launches"][-1]
    assert (launch["number"], launch["by"], launch["comment"]) == (1, "a-operator", "go")


def test_a_release_asked_for_twice_is_done_once(
    running: RegistryProcess, model: str, trust_keys: TrustKeys, tmp_path: Path
) -> None:
    make_model(running, model)
    pushed = candidate(running, tmp_path / "one", model=model)
    signed = trust_keys.release(running, model, "1.0.0", pushed["manifest"])
    body = {"comment": "go", "metadata": signed}
    path = of(model) + "/release"
    first = running.call("POST", path, body)
    before = newest(running)
    again = running.call("POST", path, body)
    assert (first.status, again.status, again.json) == (200, 200, first.json)
    assert kinds(running, before) == []


def _signed(running: RegistryProcess, model: str) -> tuple[Any, list[str]]:
    """The model's role as it is published, and the versions that it names."""
    roles = running.get("/v1/trust").json["roles"]
    number = next(one["version"] for one in roles if one["role"] == f"model-{model}")
    role = running.get(f"/tuf/{number}.model-{model}.json", "fetch").json
    return role, sorted(path.split("/")[1] for path in role["signed"]["targets"])


def test_what_a_release_retires_is_signed_for_no_more(
    running: RegistryProcess, model: str, trust_keys: TrustKeys, tmp_path: Path
) -> None:
    """Else devices would fall back to it once the newer ones are called back."""
    make_model(running, model)
    for number in range(4):
        pushed = candidate(
            running, tmp_path / str(number), f"1.0.{number}", model, shift=number % 3
        )
        assert release(running, trust_keys, pushed).status == 200
    assert running.get(of(model, "1.0.0")).json["state"] == "retired"
    role, named = _signed(running, model)
    assert named == ["1.0.0", "1.0.1", "1.0.2", "1.0.3"]  # who signed the last could not know yet
    retirement = trust_keys.retirement(running, model, "1.0.3")
    kept = dict(retirement["signed"])
    kept["targets"] = kept["targets"] | {
        f"{model}/1.0.0/manifest.json": role["signed"]["targets"][f"{model}/1.0.0/manifest.json"]
    }
    keeps_it = trust_keys.signed(json.dumps({"signatures": [], "signed": kept}).encode(), model)
    body = {"comment": "back", "metadata": keeps_it}
    refused = running.call("POST", of(model, "1.0.3") + "/retire", body)
    assert (refused.status, "still names 1.0.0" in refused.json["detail"]) == (409, True)
    for number in (3, 2, 1):
        metadata = trust_keys.retirement(running, model, f"1.0.{number}")
        body = {"comment": "back", "metadata": metadata}
        reply = running.call("POST", of(model, f"1.0.{number}") + "/retire", body)
        assert reply.status == 200, reply.body
    assert _signed(running, model)[1] == []
    assert running.get(f"/v1/models/{model}").json["current"] is None


@pytest.mark.parametrize("change", ["evaluate", "reject", "delete"])
def test_a_change_of_what_has_changed_since_is_refused(
    running: RegistryProcess, model: str, tmp_path: Path, change: str
) -> None:
    make_model(running, model)
    candidate(running, tmp_path / "one", model=model)
    path, body = of(model), {"comment": "no"}
    if change == "delete":
        assert running.call("POST", path + "/reject", body, "approver").status == 200
    seen = running.get(path).headers["etag"]
    method, to, role, sent = {
        "evaluate": ("POST", path + "/evaluate", "trainer", {}),
        "reject": ("POST", path + "/reject", "approver", body),
        "delete": ("DELETE", path + "?comment=no", "operator", None),
    }[change]
    refused = running.call(method, to, sent, role, If_Match='"1"')
    assert (refused.status, "has changed since" in refused.json["detail"]) == (409, True)
    assert running.get(path).headers["etag"] == seen
    assert running.call(method, to, sent, role, If_Match=seen).status in {200, 202, 204}
    if change == "delete":  # the answer was lost: the same request again
        assert running.call(method, to, sent, role, If_Match=seen).status == 204


def test_a_deleted_version_stays_taken(
    running: RegistryProcess, model: str, tmp_path: Path
) -> None:
    make_model(running, model)
    pushed = candidate(running, tmp_path / "one", model=model)
    assert running.call("POST", of(model) + "/reject", {"comment": "no"}, "approver").status == 200
    assert running.call("DELETE", of(model)).status == 204
    again = {"manifest_sha256": pushed["manifest"]["sha256"]}
    refused = running.call("PUT", of(model), again, "trainer")
    assert (refused.status, "its files deleted" in refused.json["detail"]) == (409, True)


def test_two_releases_that_race(
    running: RegistryProcess, model: str, trust_keys: TrustKeys, tmp_path: Path
) -> None:
    make_model(running, model)
    one = candidate(running, tmp_path / "one", model=model)
    two = candidate(running, tmp_path / "two", "1.0.1", model, shift=1)
    replies: dict[str, Reply] = {}

    def launch(pushed: Any) -> None:
        replies[pushed["version"]] = release(running, trust_keys, pushed)

    threads = [threading.Thread(target=launch, args=(pushed,)) for pushed in (one, two)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # both signed version 1 of the role, or the second saw the first; never two of one number
    won = [version for version, reply in replies.items() if reply.status == 200]
    assert won
    assert {reply.status for reply in replies.values()} <= {200, 409}
    current = running.get(f"/v1/models/{model}").json
    assert current["current"] in won
    assert current["number"] == len(won)


def test_a_revision_that_is_old_changes_nothing(
    running: RegistryProcess, model: str, trust_keys: TrustKeys, tmp_path: Path
) -> None:
    make_model(running, model)
    pushed = candidate(running, tmp_path / "one", model=model)
    seen = running.get(of(model)).headers["etag"]
    stale = f'"{pushed["revision"]}"'
    assert stale != seen
    assert release(running, trust_keys, pushed, If_Match=stale).status == 409
    assert running.get(of(model)).json["state"] == "candidate"
    assert running.get(f"/tuf/1.model-{model}.json", Role.FETCH).status == 404
    assert release(running, trust_keys, pushed, If_Match=seen).status == 200
    about = running.get(f"/v1/models/{model}")
    stale_model = {"If_Match": '"1"'}
    change = {"owner": "another"}
    put = f"/v1/models/{model}"
    assert running.call("PUT", put, change, Role.APPROVER, **stale_model).status == 409
    held = running.call("PUT", put, change, Role.APPROVER, If_Match=about.headers["etag"])
    assert (held.status, held.json["owner"]) == (200, "another")


def test_metadata_that_names_something_else_is_refused(
    running: RegistryProcess, model: str, trust_keys: TrustKeys, tmp_path: Path
) -> None:
    make_model(running, model)
    pushed = candidate(running, tmp_path / "one", model=model)
    path = of(model) + "/release"
    other = {**pushed["manifest"], "sha256": "5" * 64}
    wrong = trust_keys.release(running, model, "1.0.0", other)
    assert running.call("POST", path, {"comment": "go", "metadata": wrong}).status == 409
    right = trust_keys.release(running, model, "1.0.0", pushed["manifest"])
    right["signed"]["expires"] = "2037-01-01T00:00:00Z"
    forged = running.call("POST", path, {"comment": "go", "metadata": right})
    assert (forged.status, forged.json["type"].rsplit(":")[-1]) == (422, "unverified")
    assert running.call("POST", path, {"comment": "go", "metadata": {"signed": []}}).status == 400
    # it has no key of its own to sign with
    assert running.call("POST", path, {"comment": "go", "metadata": None}).status == 422
    assert running.get(of(model)).json["state"] == "candidate"


def test_a_registry_with_a_release_key_releases_by_itself(tmp_path: Path) -> None:
    keys = TrustKeys(tmp_path / "keys", releases_online=True)
    settings = keys.settings + "[evaluation]\nprocesses = 0\n"
    with RegistryProcess(tmp_path / "registry", settings) as registry:
        keys.publish(registry, MODEL)
        make_model(registry)
        candidate(registry, tmp_path / "one")
        released = registry.call("POST", of(MODEL) + "/release", {"comment": "go"})
        assert (released.status, released.json["state"]) == (200, "released")
        retired = registry.call("POST", of(MODEL) + "/retire", {"comment": "bad"})
        assert (retired.status, retired.json["state"]) == (200, "retired")
        assert registry.get(f"/v1/models/{MODEL}").json["current"] is None
        again = registry.call("POST", of(MODEL) + "/retire", {"comment": "bad"})
        assert again.status == 409
        # one of the releases that devices fall back to
        assert registry.call("DELETE", of(MODEL) + "?comment=old").status == 409


def test_a_veto(running: RegistryProcess, model: str, tmp_path: Path) -> None:
    make_model(running, model)
    candidate(running, tmp_path / "one", model=model)
    path = of(model) + "/reject"
    rejected = running.call("POST", path, {"comment": "biased"}, Role.APPROVER)
    assert (rejected.status, rejected.json["state"]) == (200, "rejected")
    assert "biased" in rejected.json["why"]
    gone = running.call("DELETE", of(model) + "?comment=useless")
    assert gone.status == 204
    assert running.get(of(model)).json["deleted"] is True
    history = running.get(f"/v1/models/{model}/history?version=1.0.0").json["entries"]
    assert [one["kind"] for one in history][:2] == ["version.deleted", "version.rejected"]
    assert {one["actor"] for one in history} >= {"a-operator", "a-approver", "a-trainer"}


def test_after_a_release_there_are_deltas_to_it(
    running: RegistryProcess, model: str, trust_keys: TrustKeys, tmp_path: Path
) -> None:
    make_model(running, model)
    words = os.urandom(20_000)
    one = candidate(running, tmp_path / "one", model=model, dictionary=words)
    assert release(running, trust_keys, one).status == 200
    changed = words[:10_000] + bytes([words[10_000] ^ 1]) + words[10_001:]
    two = candidate(running, tmp_path / "two", "1.0.1", model, dictionary=changed)
    assert release(running, trust_keys, two).status == 200

    def deltas_there_are() -> list[dict[str, Any]]:
        path = f"/v1/artifacts/{sha256(changed)}/deltas"
        found: list[dict[str, Any]] = running.get(path, Role.FETCH).json["deltas"]
        return found

    until(deltas_there_are)
    deltas = deltas_there_are()
    assert deltas[0]["from_sha256"] == sha256(words)
    content = running.get(f"/v1/artifacts/{deltas[0]['sha256']}", Role.FETCH)
    assert (content.status, len(content.body)) == (200, deltas[0]["bytes"])
    assert apply(words, content.body, bytes_max=20_000, sha256=sha256(changed)) == changed
