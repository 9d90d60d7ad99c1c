"""The real application over a real socket."""

import asyncio
import json
import socket
import urllib.error
import urllib.request
from collections.abc import Callable

import pytest

from cloud.api.app import Status, application, listening
from cloud.monitoring.metrics import Metrics
from shared.errors import InUse, Unavailable


def status(because: str | None = None) -> Status:
    return Status(
        name="w", ready=because is None, not_ready_because=because, broker=None, in_hand=0,
        store_up=True, models=(),
    )  # fmt: skip


def get(
    path: str, now: Callable[[], Status] = status, method: str = "GET"
) -> tuple[int, str, dict[str, object] | str]:
    def call(url: str) -> tuple[int, str, str]:
        request = urllib.request.Request(url + path, method=method)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, answer.headers.get_content_type(), answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers.get_content_type(), error.read().decode()

    async def main() -> tuple[int, str, str]:
        async with listening(application(now, Metrics()), "127.0.0.1", 0) as url:
            return await asyncio.to_thread(call, url)

    code, kind, body = asyncio.run(main())
    return code, kind, json.loads(body) if kind.endswith("json") else body


def test_it_lives_before_it_is_ready() -> None:
    def loading() -> Status:
        return status("models are loading")

    assert get("/v2/health/live", loading)[0] == 200
    code, _, body = get("/v2/health/ready", loading)
    assert (code, body) == (503, {"ready": False, "because": "models are loading"})
    assert get("/v2/health/ready")[0] == 200


def test_metrics_are_prometheus_text() -> None:
    code, kind, body = get("/metrics")
    assert (code, kind) == (200, "text/plain")
    assert "hybridge_received_total 0.0" in body


def test_status_is_json() -> None:
    _, _, body = get("/v1/status")
    assert isinstance(body, dict)
    assert body["name"] == "w"


def test_errors_are_problem_details() -> None:
    code, kind, body = get("/nowhere")
    assert (code, kind) == (404, "application/problem+json")
    assert isinstance(body, dict)
    assert body["status"] == 404
    assert get("/metrics", method="DELETE")[0] == 405


def test_our_errors_and_our_faults_have_their_own_codes() -> None:
    def away() -> Status:
        raise Unavailable("the store is away")

    def broken() -> Status:
        raise ZeroDivisionError("secret")

    code, _, body = get("/v1/status", away)
    assert (code, isinstance(body, dict) and body["detail"]) == (503, "the store is away")
    code, _, body = get("/v1/status", broken)
    assert code == 500
    assert "secret" not in str(body)


def test_what_is_refused_is_counted() -> None:
    metrics = Metrics()

    def call(url: str) -> None:
        for path in ("/nowhere", "/nor/there"):
            with pytest.raises(urllib.error.HTTPError) as refusal:
                urllib.request.urlopen(url + path, timeout=10)
            refusal.value.close()
        with socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1])), 10) as raw:
            raw.sendall(b"\x16\x03\x01 hello\r\n\r\n")
            while raw.recv(1000):
                pass

    async def main() -> None:
        async with listening(application(status, metrics), "127.0.0.1", 0) as url:
            await asyncio.to_thread(call, url)

    asyncio.run(main())
    text = metrics.text().decode()
    assert 'hybridge_http_refused_total{status="404"} 2.0' in text
    assert "hybridge_http_unreadable_total 1.0" in text


def test_a_port_that_is_taken_is_named() -> None:
    async def main() -> None:
        async with listening(application(status, Metrics()), "127.0.0.1", 0) as url:
            port = int(url.rsplit(":", 1)[1])
            with pytest.raises(InUse, match=str(port)):
                async with listening(application(status, Metrics()), "127.0.0.1", port):
                    pass

    asyncio.run(main())
