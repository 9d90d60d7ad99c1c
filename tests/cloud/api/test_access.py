"""Who may do what, over a real socket with a real gateway and real keys."""

import json
import secrets
import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cloud.gateway.api_key import make_key
from cloud.gateway.counts import GatewayCounts
from cloud.gateway.gateway import Gateway
from cloud.gateway.key_file import KeyLine, with_key
from cloud.gateway.roles import Role
from cloud.gateway.settings import GatewaySettings
from cloud.monitoring.metrics import Metrics
from tests.cloud.api.servers import (
    INFER,
    LANES,
    MODEL,
    Held,
    Running,
    head,
    lanes,
    server,
    tensor,
    until,
)

CALL = {"inputs": [tensor(3)]}
Keys = dict[str, str]


def keys(folder: Path) -> tuple[Path, Keys]:
    """By name: one for each role, one that is slow, one that is small, one that is over."""
    text, made = "", Keys()
    for name, more in {
        "infer": {}, "observe": {}, "operate": {}, "jobs": {},
        "slow": {"rate": "2/hour"}, "rows": {"rate": "5/hour"}, "small": {"body_bytes_max": 64}, "single": {"in_hand_max": 1},
        "over": {"expires": datetime(2020, 1, 1, tzinfo=UTC)},
    }.items():  # fmt: skip
        key = make_key(secrets.choice)
        role = Role(name) if name in set(Role) else Role.JOBS
        line = KeyLine(id=key.id, name=name, roles=(role,), sha256=key.digest.hex(), **more)
        text = with_key(text, line, "keys")
        made[name] = key.text
    path = folder / "keys"
    path.write_text(text)
    path.chmod(0o600)
    return path, made


def gateway(path: Path) -> Callable[[Metrics], Gateway]:
    settings = GatewaySettings(key_file=path, failures_burst=1000)
    return lambda metrics: Gateway(settings, GatewayCounts(metrics.registry))


@pytest.fixture(scope="module", params=LANES)
def guarded(
    request: pytest.FixtureRequest, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Running, Keys]]:
    path, made = keys(tmp_path_factory.mktemp("keys"))
    with server(folder, request.param, make_gateway=gateway(path)) as running:
        yield running, made


def test_a_key_opens_the_door_in_either_header(guarded: tuple[Running, Keys]) -> None:
    running, made = guarded
    assert running.infer(CALL, Authorization=f"Bearer {made['infer']}").status == 200
    assert running.infer(CALL, X_API_Key=made["infer"]).status == 200


def test_without_one_there_is_a_challenge(guarded: tuple[Running, Keys]) -> None:
    running, made = guarded
    wrong = made["infer"][:-8] + "00000000"
    for headers in ({}, {"X_API_Key": wrong}, {"X_API_Key": made["over"]},
                    {"Authorization": "Basic eDp5"}, {"Authorization": "Bearer " + "x" * 5000},
                    {"Authorization": f"Bearer {made['infer']}", "X_API_Key": made["infer"]}):  # fmt: skip
        answer = running.infer(CALL, **headers)
        assert (answer.status, answer.json["type"]) == (401, "urn:hybridge:problem:not-trusted")
        assert answer.headers["www-authenticate"].startswith("Bearer ")
        assert made["infer"] not in answer.body.decode()


def test_a_credential_that_stands_twice_is_refused(guarded: tuple[Running, Keys]) -> None:
    running, made = guarded
    for field in (f"X-API-Key: {made['infer']}", f"Authorization: Bearer {made['infer']}"):
        once, twice = head("/v2", field, method="GET"), head("/v2", field, field, method="GET")
        assert running.raw(once).startswith(b"HTTP/1.1 200 ")
        assert running.raw(twice).startswith(b"HTTP/1.1 400 ")


def test_before_the_body_is_read(guarded: tuple[Running, Keys]) -> None:
    running, _ = guarded
    asking = head(INFER, "Content-Length: 99", "Expect: 100-continue")
    assert running.raw(asking).startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize(
    ("name", "may", "may_not"),
    [
        ("infer", (f"GET /v2/models/{MODEL}", "POST /v2/repository/index"),
         ("GET /metrics", f"POST /v2/repository/models/{MODEL}/load")),
        ("observe", ("GET /metrics", "GET /v1/status", f"GET /v2/models/{MODEL}"),
         (f"POST {INFER}", f"POST /v2/repository/models/{MODEL}/unload")),
        ("operate", ("GET /metrics", f"POST /v2/repository/models/{MODEL}/load",
                     "POST /v2/repository/index"),
         (f"POST {INFER}",)),
        ("jobs", (f"GET /v2/models/{MODEL}/config",), ("GET /v1/status",)),
    ],
)  # fmt: skip
def test_roles(
    guarded: tuple[Running, Keys], name: str, may: tuple[str, ...], may_not: tuple[str, ...]
) -> None:
    running, made = guarded
    for route, code in (*((route, 200) for route in may), *((route, 403) for route in may_not)):
        method, _, path = route.partition(" ")
        assert running.call(method, path, X_API_Key=made[name]).status == code, route


def test_health_and_the_description_are_for_everybody(guarded: tuple[Running, Keys]) -> None:
    running, _ = guarded
    for path in ("/v2", "/v2/health/live", "/v2/health/ready", "/openapi.json"):
        assert running.get(path).status == 200
    assert running.get("/nowhere").status == 404
    guarded_paths = [route.path for route in running.api.routes if route.role is not None]
    for path in guarded_paths:
        method = next(r.method for r in running.api.routes if r.path == path)
        assert running.call(method, path.format(model=MODEL, version="1")).status == 401, path


@lanes
@pytest.mark.parametrize("parameters", [{"tier": "asynchronous"}, {"note": "x" * 9000}])
def test_a_request_that_changes_lanes_is_counted_once(
    folder: Path, tmp_path: Path, lane: str, parameters: dict[str, str]
) -> None:
    path, made = keys(tmp_path)
    call = {**CALL, "parameters": parameters}
    with server(folder, lane, make_gateway=gateway(path), with_jobs=True) as running:
        codes = [running.infer(call, X_API_Key=made["slow"]).status for _ in range(3)]
    assert [code < 300 for code in codes] == [True, True, False]


@lanes
def test_who_asks_too_often_is_told_when_to_come_again(
    folder: Path, tmp_path: Path, lane: str
) -> None:
    path, made = keys(tmp_path)
    with server(folder, lane, make_gateway=gateway(path)) as running:
        codes = [running.infer(CALL, X_API_Key=made["slow"]).status for _ in range(2)]
        answer = running.infer(CALL, X_API_Key=made["slow"])
        assert (codes, answer.status) == ([200, 200], 429)
        assert 1000 < int(answer.headers["retry-after"]) <= 3600
        assert running.infer(CALL, X_API_Key=made["infer"]).status == 200


def test_a_rate_counts_rows(guarded: tuple[Running, Keys]) -> None:
    running, made = guarded
    three = {"inputs": [tensor(1, 2, 3)]}
    assert running.infer(three, X_API_Key=made["rows"]).status == 200
    assert running.infer(three, X_API_Key=made["rows"]).status == 429
    assert running.infer({"inputs": [tensor(1)]}, X_API_Key=made["rows"]).status == 200


def test_a_body_over_the_callers_own_bound(guarded: tuple[Running, Keys]) -> None:
    running, made = guarded
    assert running.infer(CALL, X_API_Key=made["small"]).status == 413
    chunked = head(INFER, "Transfer-Encoding: chunked", f"X-API-Key: {made['small']}")
    answer = running.raw(chunked, b"80\r\n" + b" " * 128 + b"\r\n0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 413 ")


def test_a_client_that_leaves_gives_its_place_back(guarded: tuple[Running, Keys]) -> None:
    running, made = guarded
    for _ in range(20):
        with socket.create_connection((running.host, running.port), 5) as connection:
            connection.sendall(head(INFER, "Content-Length: 99", f"X-API-Key: {made['jobs']}"))
    assert running.infer(CALL, X_API_Key=made["jobs"]).status == 200


@lanes
def test_a_caller_has_so_many_requests_in_hand_and_no_more(
    folder: Path, tmp_path: Path, lane: str
) -> None:
    path, made = keys(tmp_path)
    held, body = Held(), json.dumps(CALL).encode()
    with server(folder, lane, make_gateway=gateway(path), make_inference=held.inference) as running:
        with running.connect() as first:
            fields = f"Content-Length: {len(body)}", f"X-API-Key: {made['single']}"
            first.sendall(head(INFER, *fields) + body)
            until(running, lambda: len(held.jobs) == 1)
            assert running.infer(CALL, X_API_Key=made["single"]).status == 429
            assert len(held.jobs) == 1
        until(running, lambda: held.jobs[0].gone)
        metadata = f"/v2/models/{MODEL}"
        until(running, lambda: running.get(metadata, X_API_Key=made["single"]).status == 200)
