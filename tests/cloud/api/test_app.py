"""The real application over a real socket."""

import json
import re
from pathlib import Path

import pytest

from cloud.api.schemas import Status
from cloud.api.settings import Api
from shared.errors import InUse, Unavailable
from tests.cloud.api.servers import (
    INFER,
    MODEL,
    SPARE,
    Held,
    Running,
    head,
    lanes,
    server,
    status,
    tensor,
    until,
)

ID = re.compile("[0-9a-f]{16}")
WORDS = "there is nothing at this path; /openapi.json says what there is"


def test_it_lives_before_it_is_ready(folder: Path) -> None:
    with server(folder, state=lambda: status("models are loading")) as running:
        assert running.get("/v2/health/live").status == 200
        answer = running.get("/v2/health/ready")
        assert (answer.status, answer.json) == (
            503, {"ready": False, "because": "models are loading"},
        )  # fmt: skip
        assert running.get("/v2/models/tiny-cloud/ready").status == 503


def test_it_is_ready(running: Running) -> None:
    answer = running.get("/v2/health/ready")
    assert (answer.status, answer.json) == (200, {"ready": True, "because": None})


def test_metrics_are_prometheus_text(running: Running) -> None:
    answer = running.get("/metrics")
    assert (answer.status, answer.kind) == (200, "text/plain")
    assert b"hybridge_received_total 0.0" in answer.body


def test_status_is_json(running: Running) -> None:
    assert running.get("/v1/status").json["name"] == "w"


def test_errors_are_problem_details(running: Running) -> None:
    answer = running.get("/nowhere")
    assert (answer.status, answer.kind) == (404, "application/problem+json")
    assert answer.json == {
        "type": "urn:hybridge:problem:not-found", "title": "Not Found", "status": 404,
        "detail": WORDS, "error": WORDS,
        "instance": answer.headers["x-request-id"],
    }  # fmt: skip
    answer = running.call("DELETE", "/metrics")
    assert (answer.status, answer.headers["allow"]) == (405, "GET,HEAD")


def test_our_errors_and_our_faults_have_their_own_codes(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def away() -> Status:
        raise Unavailable("the store is away")

    def broken() -> Status:
        raise ZeroDivisionError("secret")

    with server(folder, state=away) as running:
        answer = running.get("/v1/status")
        assert (answer.status, answer.json["detail"]) == (503, "the store is away")
    with server(folder, state=broken) as running:
        answer = running.get("/v1/status")
        assert answer.status == 500
        assert b"secret" not in answer.body
        assert answer.headers["x-request-id"] in str([vars(r) for r in caplog.records])


def test_what_is_refused_is_counted_by_status_and_kind(folder: Path) -> None:
    with server(folder) as running:
        for path in ("/nowhere", "/nor/there", "/v2/models/none"):
            assert running.get(path).status == 404
        assert running.raw(b"\x16\x03\x01 hello\r\n\r\n")
        text = running.metrics.text().decode()
    assert 'hybridge_http_problems_total{kind="not-found",status="404"} 2.0' in text
    assert 'hybridge_http_problems_total{kind="unknown",status="404"} 1.0' in text
    assert "hybridge_http_unreadable_total 1.0" in text


def test_refusals_are_logged_once_for_each_kind(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with server(folder) as running:
        for _ in range(3):
            running.infer({})
            running.get("/nowhere")
            running.raw(b"\x16\x03\x01 hello\r\n\r\n")
    lines = sorted((r.message, vars(r).get("status", 0)) for r in caplog.records if r.levelno > 20)
    assert lines == [("http_unreadable", 0), ("request_refused", 400), ("request_refused", 404)]


def test_a_port_that_is_taken_is_named(folder: Path, running: Running) -> None:
    taken = Api(port=running.port)
    with pytest.raises(InUse, match=str(running.port)), server(folder, settings=taken):
        pass


def test_a_request_has_an_id_and_a_place_in_a_trace(running: Running) -> None:
    answer = running.get("/v2")
    assert ID.fullmatch(answer.headers["x-request-id"])
    assert re.fullmatch("00-[0-9a-f]{32}-[0-9a-f]{16}-00", answer.headers["traceparent"])
    assert running.get("/v2").headers["x-request-id"] != answer.headers["x-request-id"]


@pytest.mark.parametrize(
    ("path", "code"), [(INFER, 200), ("/nowhere", 404), ("/v2/models/none/infer", 404)]
)
def test_a_callers_own_come_back_on_answers_and_errors(
    running: Running, path: str, code: int
) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    sent = {"X_Request_Id": "order-7", "traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
    answer = running.infer({"inputs": [tensor(3)]}, path, **sent)
    assert (answer.status, answer.headers["x-request-id"]) == (code, "order-7")
    version, trace_id, span, flags = answer.headers["traceparent"].split("-")
    assert (version, trace_id, flags) == ("00", trace, "01")
    assert span != "00f067aa0ba902b7"
    if code != 200:
        assert answer.json["instance"] == "order-7"


def test_an_id_that_could_not_be_echoed_is_replaced(running: Running) -> None:
    assert ID.fullmatch(running.get("/v2", X_Request_Id="two words").headers["x-request-id"])


def test_two_places_in_a_trace_are_none(running: Running) -> None:
    trace = b"traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n"
    request = head("/v2", method="GET")
    answer = running.raw(request[:-2] + trace + b"\r\n")
    assert b"4bf92f3577b34da6a3ce929d0e0e4736" in answer
    answer = running.raw(request[:-2] + trace * 2 + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"4bf92f3577b34da6a3ce929d0e0e4736" not in answer


@lanes
def test_nothing_is_computed_for_a_client_who_has_left(folder: Path, lane: str) -> None:
    held = Held()
    body = json.dumps({"inputs": [tensor(3)]}).encode()
    with server(folder, lane, make_inference=held.inference) as running:
        with running.connect() as connection:
            connection.sendall(head(INFER, f"Content-Length: {len(body)}") + body)
            until(running, lambda: len(held.jobs) == 1)
            assert not held.jobs[0].gone
        until(running, lambda: held.jobs[0].gone)


def test_a_balancer_may_ask_for_the_head_alone(running: Running) -> None:
    answer = running.call("HEAD", "/v2/health/ready")
    assert (answer.status, answer.body) == (200, b"")
    assert running.call("HEAD", "/v2/health/ready").headers["content-length"] != "0"


def test_who_only_looks_has_nothing_loaded(folder: Path) -> None:
    with server(folder) as running:
        spare = f"/v2/models/{SPARE}/ready"
        answers = [running.get(spare) for _ in range(3)]
        assert [(a.status, a.json["detail"]) for a in answers] == [
            (503, f"{SPARE}: not loaded")
        ] * 3
        assert running.get(f"/v2/models/{MODEL}/versions/1.0.0/ready").status == 200
        assert running.get(f"/v2/models/{MODEL}/versions/1.0.1/ready").status == 404


def test_a_web_page_is_refused(running: Running) -> None:
    for headers in ({"Origin": "http://evil.example"}, {"Sec_Fetch_Site": "cross-site"}):
        answer = running.infer({"inputs": [tensor(3)]}, **headers)
        assert (answer.status, answer.json["type"]) == (403, "urn:hybridge:problem:forbidden")
    assert running.get("/v2", Sec_Fetch_Site="none").status == 200
