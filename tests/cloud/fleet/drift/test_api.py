"""Drift over HTTP, from a real process with devices that report."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cloud.gateway.roles import Role
from tests.cloud.fleet.light import light_devices
from tests.cloud.fleet.servers import FleetProcess, fleet
from tests.cloud.keyed_process import until


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetProcess]:
    folder: Path = tmp_path_factory.mktemp("fleet")
    with fleet(folder, "[drift]\nlook_s = 0.2\n") as process, light_devices(process.broker, 3):
        yield process


def test_scopes_are_shown_page_by_page(running: FleetProcess) -> None:
    until(lambda: len(running.get("/v1/drift").json["scopes"]) == 5)
    until(lambda: running.get("/v1/drift?kind=group").json["scopes"][0]["samples"] > 0)
    page = running.get("/v1/drift?limit=2").json
    assert [one["scope"]["kind"] for one in page["scopes"]] == ["fleet", "group"]
    rest = running.get(f"/v1/drift?limit=1000&after={page['next']}").json
    assert [one["scope"]["name"] for one in rest["scopes"]] == ["d0000", "d0001", "d0002"]
    assert rest["next"] is None
    assert running.get("/v1/drift?kind=device&name=d0001&model=m").json["scopes"][0]["devices"] == 1
    assert running.get("/v1/drift?model=other").json["scopes"] == []


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/v1/drift?kind=planet", "kind"), ("/v1/drift?name=%00", "device"),
        ("/v1/drift?model=A", "model"), ("/v1/drift?after=x", "after"),
        ("/v1/drift?limit=0", "limit"), ("/v1/drift/alarms?on=perhaps", "on is"),
        ("/v1/drift/alarms?after=%2F", "alarm"), ("/v1/drift?colour=red", "colour"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(running: FleetProcess, path: str, words: str) -> None:
    found = running.get(path)
    assert found.status == 400
    assert words in str(found.json)


def test_there_is_no_such_alarm(running: FleetProcess) -> None:
    assert running.get("/v1/drift/alarms/input-1-1").status == 404
    assert running.call("POST", "/v1/drift/alarms/input-1-1/seen", {"comment": ""}).status == 404
    assert running.get("/v1/drift/alarms?on=true").json == {"alarms": [], "next": None}


def test_a_viewer_does_not_say_that_it_is_seen(running: FleetProcess) -> None:
    path = "/v1/drift/alarms/input-1-1/seen"
    assert running.call("POST", path, {"comment": ""}, role=Role.VIEWER).status == 403
