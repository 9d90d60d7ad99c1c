"""Rollouts over the API: what is refused at creation, two operators, watching one."""

import concurrent.futures
from typing import Any

import pytest

from tests.cloud.fleet.servers import FleetProcess

SPEC: dict[str, Any] = {
    "subject": {"kind": "model", "model": "m", "version": "1.1.0", "manifest_sha256": "b" * 64},
    "group": "all", "selector": "device/id in (d0000,d0001)", "shadow_s": 0, "canary": 0.5,
    "waves": [1.0], "wave_s": 1, "watch_s": 0, "samples_min": 10, "done_samples": 5,
    "criteria": ["install_failures <= 0.2"],
}  # fmt: skip


def draft(running: FleetProcess, **more: object) -> dict[str, Any]:
    made = running.call("POST", "/v1/rollouts", SPEC | more)
    assert made.status == 201, made.body
    return dict(made.json)


@pytest.mark.parametrize(
    ("more", "status", "words"),
    [
        ({"criteria": ["disagrement <= 0.1"]}, 400, "disagreement"),
        ({"criteria": ["silent <="]}, 400, ""),
        ({"selector": "device/id=nobody"}, 409, ""),
        ({"selector": "site=("}, 400, ""),
        ({"group": "nobody"}, 404, "no group"),
        ({"waves": [0.5]}, 400, ""),
        ({"canary": 7}, 400, "canary"),
        ({"colour": "red"}, 400, "colour"),
        ({"subject": {"kind": "profile", "name": "none", "version": 1}}, 404, "no profile"),
        ({"subject": {"kind": "model", "model": "m", "version": "1.1.0"}}, 400, "manifest_sha256"),
        ({"subject": {"kind": "hope"}}, 400, "kind"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/rollouts", "/v1/rollouts/plan"])
def test_what_makes_no_sense_is_refused_before_it_is_there(
    running: FleetProcess, path: str, more: dict[str, object], status: int, words: str
) -> None:
    answer = running.call("POST", path, SPEC | more)
    assert answer.status == status, answer.body
    assert words in answer.json["detail"]


def test_a_plan_makes_nothing_and_has_the_canary_of_the_draft(running: FleetProcess) -> None:
    before = len(running.get("/v1/rollouts").json["rollouts"])
    planned = running.call("POST", "/v1/rollouts/plan", SPEC, "viewer").json
    assert len(running.get("/v1/rollouts").json["rollouts"]) == before
    made = draft(running)
    assert planned["spec"]["seed"] == made["spec"]["seed"]
    path = f"/v1/rollouts/{made['id']}/devices"
    first = [one["device"] for one in running.get(path).json["devices"] if one["stage"] == 0]
    assert planned["stages"][0]["devices"] == first


def test_of_two_who_start_it_one_does(running: FleetProcess) -> None:
    made = draft(running, watch_s=1000)

    def start(_: int) -> int:
        path = f"/v1/rollouts/{made['id']}/start"
        return running.call("POST", path, {}, If_Match=f'"{made["revision"]}"').status

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(start, range(2))) == [200, 409]
    other = draft(running, selector="device/id=d0003")
    refused = running.call("POST", f"/v1/rollouts/{other['id']}/start", {})
    assert (refused.status, made["id"] in refused.json["detail"]) == (409, True)
    undone = running.call("POST", f"/v1/rollouts/{made['id']}/undo", {"comment": "enough"})
    assert undone.status == 200
    ends(running, made["id"], "rolled_back")
    late = running.call("POST", f"/v1/rollouts/{made['id']}/pause", {}, If_Match='"1"')
    assert (late.status, "rolled_back" in late.json["detail"]) == (409, True)


def ends(running: FleetProcess, rollout: str, *statuses: str) -> list[dict[str, Any]]:
    """Every state of it that was seen until then, by long polls."""
    seen, path = list[dict[str, Any]](), f"/v1/rollouts/{rollout}/watch"
    tag = ""
    while not seen or seen[-1]["status"] not in statuses:
        answer = running.get(f"{path}?wait_s=20" + (f"&revision={tag}" if tag else ""))
        assert answer.status == 200
        assert answer.headers["etag"] != f'"{tag}"', "20 s without a change"
        tag = answer.headers["etag"].strip('"')
        seen.append(answer.json)
    return seen


def test_who_watches_sees_it_through(running: FleetProcess) -> None:
    made = draft(running, approvals=["wave"])
    name = made["id"]
    assert running.call("POST", f"/v1/rollouts/{name}/start", {}).status == 200
    path = f"/v1/rollouts/{name}/watch"
    tag = ""
    while True:
        answer = running.get(f"{path}?wait_s=20" + (f"&revision={tag}" if tag else ""))
        tag = answer.headers["etag"].strip('"')
        if answer.json["waiting_for_approval"]:
            break
    approved = running.call("POST", f"/v1/rollouts/{name}/approve", {"comment": "fine"}, "approver")
    assert approved.status == 200
    seen = ends(running, name, "succeeded")
    assert seen[-1]["phases"] == {"done": 2}
    history = running.get(f"/v1/rollouts/{name}/history").json["events"]
    assert [one["kind"] for one in history if one["kind"].startswith("operator")] == [
        "operator_start", "operator_approve"
    ]  # fmt: skip
    assert any(one["actor"] == "a-approver" for one in history)
    second = running.get(f"/v1/rollouts/{name}/history?after={history[0]['seq']}&limit=1").json
    assert second["events"] == history[1:2]
    assert [one["id"] for one in running.get("/v1/rollouts?status=succeeded").json["rollouts"]] == [
        name
    ]
    done = running.get(f"/v1/rollouts/{name}/devices?phase=done&limit=1").json
    assert (len(done["devices"]), done["next"]) == (1, done["devices"][0]["device"])


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/rollouts/nothing", 404), ("/v1/rollouts/nothing/watch", 404),
        ("/v1/rollouts/nothing/history", 404), ("/v1/rollouts/nothing/devices", 404),
        ("/v1/rollouts/UPPER", 400), ("/v1/rollouts?status=sad", 400),
        ("/v1/rollouts/nothing/devices?phase=sad", 400), ("/v1/rollouts/nothing/watch?wait_s=x", 400),
    ],
)  # fmt: skip
def test_what_is_not_there(running: FleetProcess, path: str, status: int) -> None:
    assert running.get(path).status == status
