"""The log, runners and replicas over HTTP."""

import threading
from typing import Any

from cloud.gateway.roles import Role
from cloud.registry.catalog.chain import EMPTY, verify_chain
from cloud.registry.replication.log_answer import LogAnswer
from tests.cloud.registry.servers import RegistryProcess


def test_the_log_is_a_chain_that_ends_in_its_head(running: RegistryProcess) -> None:
    head, seen = EMPTY, 0
    while True:
        answer = LogAnswer.model_validate(running.get(f"/v1/log?after={seen}&limit=3").json)
        if not answer.entries:
            break
        head, seen = verify_chain(head, answer.entries), answer.entries[-1].seq
        assert head == answer.head
    assert seen == answer.newest == running.get("/v1/registry").json["head"]["seq"] > 3


def test_whoever_waits_is_told_at_once(running: RegistryProcess, model: str) -> None:
    seq = running.get("/v1/registry").json["head"]["seq"]
    answers: list[Any] = []
    waiting = threading.Thread(
        target=lambda: answers.append(running.get(f"/v1/log?after={seq}&wait_s=30").json)
    )
    waiting.start()
    running.call("PUT", f"/v1/models/{model}", {"owner": "v"}, Role.TRAINER)
    waiting.join(10)
    assert [entry["kind"] for entry in answers[0]["entries"]][-1] == "model.set"
    assert answers[0]["head"]["seq"] == seq + 1


def test_a_wait_ends(running: RegistryProcess) -> None:
    seq = running.get("/v1/registry").json["head"]["seq"]
    reply = running.get(f"/v1/log?after={seq}&wait_s=0.05")
    assert (reply.status, reply.json["entries"]) == (200, [])


def test_runners_say_what_they_run(running: RegistryProcess) -> None:
    said = {"model": "m", "version": "1.0.0", "variant": "onnxruntime/int8"}
    seq = running.get("/v1/registry").json["head"]["seq"]
    assert running.call("PUT", "/v1/runners/cam-1", said, Role.FETCH).status == 204
    (runner,) = running.get("/v1/runners?model=m").json["runners"]
    assert {**said, "name": "cam-1", "state": "active", "seen_at": runner["seen_at"]} == runner
    moved = {**said, "version": "1.0.1", "state": "trial"}
    assert running.call("PUT", "/v1/runners/cam-1", moved, Role.FETCH).status == 204
    (runner,) = running.get("/v1/runners").json["runners"]
    assert (runner["version"], runner["state"]) == ("1.0.1", "trial")
    assert running.get("/v1/registry").json["head"]["seq"] == seq  # it is no part of the log


def test_replicas_say_how_far_they_are(running: RegistryProcess) -> None:
    said = {
        "name": "north", "url": "http://north", "epoch": 1, "seq": 3, "artifacts_missing": 0,
        "running": [], "seen_at": 5.0,
    }  # fmt: skip
    assert running.call("PUT", "/v1/replicas/south", said, Role.VIEWER).status == 400
    assert running.call("PUT", "/v1/replicas/north", said, Role.VIEWER).status == 204
    (replica,) = running.get("/v1/replicas").json["replicas"]
    assert replica["seen_at"] > 5.0  # by this clock
    assert {**replica, "seen_at": 5.0} == said


def test_what_it_says_of_itself(running: RegistryProcess) -> None:
    said = running.get("/v1/registry").json
    assert (said["name"], said["role"], said["writable"]) == ("registry", "home", True)
    assert (said["why_read_only"], said["behind"], said["home"]) == (None, None, None)
    assert running.get("/healthz", None).json == {
        "live": True, "role": "home", "seq": running.get("/healthz", None).json["seq"],
    }  # fmt: skip
    metrics = running.get("/metrics").body.decode()
    for name in (
        "hybridge_registry_log_seq", "hybridge_registry_behind 0.0", "hybridge_registry_writable 1.0",
        "hybridge_registry_timestamp_due_seconds", "hybridge_registry_request_seconds_bucket",
    ):  # fmt: skip
        assert name in metrics


def test_garbage_is_counted_and_kept_while_it_is_young(running: RegistryProcess) -> None:
    said = running.call("POST", "/v1/gc", {"dry_run": False}).json
    assert (said["artifacts"], said["bytes"], said["dry_run"]) == (0, 0, False)
    assert said["kept"] > 0
