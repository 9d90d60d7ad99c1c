"""Devices, groups and profiles over the API: who may, what is refused, who loses a race."""

import concurrent.futures
import json
import time
from typing import Any

import pytest

from shared.fleet.asking import Ask, Told
from shared.topics import ask as ask_topic
from shared.topics import told as told_topic
from tests.brokers import Client
from tests.cloud.fleet.servers import FleetProcess


def devices(running: FleetProcess, query: str = "") -> list[str]:
    return [one["id"] for one in running.get(f"/v1/devices{query}").json["devices"]]


def test_devices_come_by_name_and_by_page(running: FleetProcess) -> None:
    first = running.get("/v1/devices?limit=3").json
    assert [one["id"] for one in first["devices"]] == ["d0000", "d0001", "d0002"]
    assert first["next"] == "d0002"
    assert devices(running, "?limit=3&after=d0002") == ["d0003"]
    assert devices(running, "?selector=device/id=d0001") == ["d0001"]


def test_a_device_says_what_it_runs(running: FleetProcess) -> None:
    found = running.get("/v1/devices/d0001")
    assert found.headers["etag"] == f'"{found.json["revision"]}"'
    assert (found.json["model"]["version"], found.json["presence"]["online"]) == ("1.0.0", True)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("GET", "/v1/devices/nobody", None, 404, "no device"),
        ("GET", "/v1/devices/a%2fb", None, 400, "is no device"),
        ("GET", "/v1/devices?selector=site%3D", None, 400, ""),
        ("GET", f"/v1/devices?selector={'x' * 600}", None, 400, "600 characters"),
        ("GET", "/v1/devices?limit=0", None, 400, "from 1"),
        ("GET", "/v1/devices?after=%00", None, 400, "is no device"),
        ("GET", "/v1/devices?colour=red", None, 400, "not known here"),
        ("PUT", "/v1/devices/d0001/labels", {"labels": {"UPPER": "x"}}, 400, "labels"),
        ("PUT", "/v1/devices/d0001/labels", {"labels": {}, "more": 1}, 400, "more"),
        ("PUT", "/v1/devices/d0001/labels", b"{", 400, "JSON"),
        ("PUT", "/v1/devices/d0001/labels", b" " * 300_000, 413, ""),
        ("POST", "/v1/devices/d0001/quarantine", {"until": 5.0}, 400, "passed"),
        ("DELETE", "/v1/devices/nobody", None, 404, "no device"),
        ("PUT", "/v1/groups/lyon", {"selector": "site=lyon,"}, 400, ""),
        ("DELETE", "/v1/groups/all", None, 409, "always there"),
        ("GET", "/v1/groups/nobody", None, 404, "no group"),
        ("GET", "/v1/profiles/none/1", None, 404, "no profile"),
        ("PUT", "/v1/profiles/p/1", {"settings": {"colour": "red"}}, 400, "colour"),
        ("PUT", "/v1/groups/all/baseline/m", {"version": "1.0.0"}, 400, "manifest_sha256"),
        ("PUT", "/v1/groups/all/profile", {"name": "p", "version": 9}, 404, "no profile"),
        ("DELETE", "/v1/tokens/abcdefgh", None, 404, "no token"),
        ("GET", "/v1/events?device=a%20b", None, 400, "is no device"),
        ("GET", "/v1/nothing", None, 404, "openapi"),
    ],
)  # fmt: skip
def test_refused_in_words(
    running: FleetProcess, method: str, path: str, body: object, status: int, words: str
) -> None:
    answer = running.call(method, path, body)
    assert (answer.status, answer.headers["content-type"]) == (status, "application/problem+json")
    assert words in answer.json["detail"]


@pytest.mark.parametrize(
    ("method", "path", "role", "status"),
    [
        ("GET", "/v1/devices", "viewer", 200), ("GET", "/v1/devices", None, 401),
        ("PUT", "/v1/devices/d0001/labels", "viewer", 403),
        ("POST", "/v1/tokens", "viewer", 403), ("POST", "/v1/tokens", "approver", 403),
        ("POST", "/v1/rollouts/x/approve", "operator", 403),
        ("POST", "/v1/rollouts/x/start", "approver", 403),
        ("GET", "/v1/devices/d0001/logs", "viewer", 403),
        ("POST", "/v1/fleet/publish", "viewer", 403), ("GET", "/healthz", None, 200),
        ("GET", "/openapi.json", None, 200), ("GET", "/metrics", None, 401),
    ],
)  # fmt: skip
def test_each_route_has_its_role(
    running: FleetProcess, method: str, path: str, role: str | None, status: int
) -> None:
    assert running.call(method, path, {}, role).status == status


def test_of_two_operators_at_once_one_wins_and_the_other_is_told(running: FleetProcess) -> None:
    seen = running.get("/v1/devices/d0002").headers["etag"]

    def label(site: str) -> int:
        return running.call(
            "PUT", "/v1/devices/d0002/labels", {"labels": {"site": site}}, If_Match=seen
        ).status

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(label, ("lyon", "oslo"))) == [200, 409]
    late = running.call("PUT", "/v1/devices/d0002/labels", {"labels": {}}, If_Match=seen)
    assert (late.status, "changed" in late.json["detail"]) == (409, True)


def test_a_quarantine_is_made_and_ended_and_both_are_in_the_log(running: FleetProcess) -> None:
    made = running.call("POST", "/v1/devices/d0003/quarantine", {"comment": "on a bench"})
    assert made.json["quarantine"]["why"] == "on a bench"
    ended = running.call("POST", "/v1/devices/d0003/release", {"comment": "back"})
    assert ended.json["quarantine"] is None
    kinds = [one["kind"] for one in running.get("/v1/devices/d0003/events").json["events"]]
    assert kinds[-2:] == ["quarantined", "quarantine_ended"]


def test_whoever_waits_for_the_log_has_its_next_line(running: FleetProcess) -> None:
    head = running.get("/v1/fleet").json["head"]
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waits = pool.submit(running.get, f"/v1/events?after={head}&wait_s=20")
        running.call("PUT", "/v1/groups/waited", {"selector": "site=nowhere"})
        (line,) = waits.result(10).json["events"]
    assert (line["kind"], line["actor"]) == ("group", "a-operator")
    assert running.get(f"/v1/events?after={line['seq']}").json["events"] == []


def test_a_group_has_a_baseline_and_a_profile(running: FleetProcess) -> None:
    made = running.call("PUT", "/v1/groups/lyon", {"selector": "site=lyon"}, If_Match="0")
    assert made.status == 200
    assert running.call("PUT", "/v1/groups/lyon", {}, If_Match="0").status == 409
    baseline = {"version": "1.0.0", "manifest_sha256": "a" * 64}
    assert running.call("PUT", "/v1/groups/lyon/baseline/m", baseline).json["models"] == {
        "m": baseline
    }
    pushed = running.call("PUT", "/v1/profiles/slow/1", {"settings": {"telemetry_s": 60.0}})
    assert pushed.status == 200
    again = running.call("PUT", "/v1/profiles/slow/1", {"settings": {"telemetry_s": 61.0}})
    assert again.status == 409
    assert running.get("/v1/profiles/slow").json["profiles"][0]["sha256"] == pushed.json["sha256"]
    has = running.call("PUT", "/v1/groups/lyon/profile", {"name": "slow", "version": 1}).json
    assert has["profile"] == {"name": "slow", "version": 1}
    assert running.call("DELETE", "/v1/groups/lyon?comment=closed").status == 204
    assert newest(running)["words"].endswith(": closed")


def test_a_device_is_asked_for_its_log(running: FleetProcess) -> None:
    client = Client(running.broker, "d0009")
    try:
        client.subscribe(ask_topic("d0009"), qos=1)  # type: ignore[arg-type]  # a device id
        client.publish("hy/v1/d0009/up/state", b'{"online":true}', qos=1, retain=True)
        ends = time.monotonic() + 10
        while running.get("/v1/devices/d0009").status != 200:
            assert time.monotonic() < ends
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            asked = pool.submit(running.call, "GET", "/v1/devices/d0009/logs?lines=7", None)
            ask = Ask.model_validate_json(client.next().payload)
            told = Told(id=ask.id, lines=('{"event": "link_up"}',))
            client.publish(told_topic("d0009"), told.to_bytes(), qos=1)  # type: ignore[arg-type]
            answer = asked.result(10)
        assert (ask.lines, answer.status) == (7, 200)
        assert json.loads(answer.json["lines"][0]) == {"event": "link_up"}
    finally:
        client.disconnect()


def test_one_that_was_revoked_is_not_asked_and_why_it_went_is_in_the_log(
    running: FleetProcess,
) -> None:
    client = Client(running.broker, "d0010")
    try:
        client.publish("hy/v1/d0010/up/state", b'{"online":true}', qos=1, retain=True)
        ends = time.monotonic() + 10
        while running.get("/v1/devices/d0010").status != 200:
            assert time.monotonic() < ends
    finally:
        client.disconnect()
    running.call("POST", "/v1/devices/d0010/revoke", {"comment": "stolen"})
    refused = running.call("GET", "/v1/devices/d0010/logs?lines=7", None)  # at once, unasked
    assert (refused.status, "is revoked" in refused.json["detail"]) == (409, True)
    assert running.call("DELETE", "/v1/devices/d0010?comment=never%20found").status == 204
    last = newest(running)
    assert (last["kind"], last["words"]) == ("removed", "with 0 certificates: never found")


def newest(running: FleetProcess) -> Any:
    """Line of the log."""
    head = running.get("/v1/fleet").json["head"]
    return running.get(f"/v1/events?after={head - 1}").json["events"][-1]


def test_the_description_has_every_route(running: FleetProcess) -> None:
    paths = running.get("/openapi.json").json["paths"]
    assert "post" in paths["/v1/rollouts/{rollout}/undo"]
    assert len(paths) > 25


def test_figures_have_their_names(running: FleetProcess) -> None:
    text = running.get("/metrics").body.decode()
    for name in (
        "devices_online ", "link_up 1.0", 'messages_total{kind="tel"}', "rollout_turn_seconds_count",
    ):  # fmt: skip
        assert f"hybridge_fleet_{name}" in text
