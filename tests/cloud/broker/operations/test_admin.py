"""The operator's HTTP over a real Unix socket and a real TCP port."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from cloud.broker.operations.admin import Operable
from cloud.broker.operations.listeners import admin_listening, metrics_listening
from cloud.broker.operations.status import SessionPage, Status
from cloud.broker.router.router import Router
from tests.cloud.broker.operations.sample import Figures, busy_router, join, overview

Http = aiohttp.ClientSession


@asynccontextmanager
async def asking(state_dir: Path, broker: Operable) -> AsyncIterator[Http]:
    async with (
        admin_listening(broker, state_dir) as path,
        Http("http://broker", connector=aiohttp.UnixConnector(str(path))) as http,
    ):
        yield http


def over_the_socket(
    tmp_path: Path, broker: Operable, check: Callable[[Http], Awaitable[None]]
) -> None:
    async def run() -> None:
        async with asking(tmp_path, broker) as http:
            await check(http)

    asyncio.run(run())


async def problem(answer: aiohttp.ClientResponse) -> tuple[int, str]:
    assert answer.content_type == "application/problem+json"
    document: dict[str, Any] = json.loads(await answer.read())
    assert document["status"] == answer.status
    return answer.status, document["detail"]


def test_status_and_sessions(tmp_path: Path) -> None:
    async def check(http: Http) -> None:
        async with http.get("/status") as answer:
            status = await answer.json()
        assert (status["sessions"], status["store"]["commits"]) == (3, 7)
        assert status["counts"]["connects_refused"] == {"NOT_AUTHORIZED": 2}
        async with http.get("/sessions", params={"limit": "2"}) as answer:
            first = await answer.json()
        assert [one["client_id"] for one in first["sessions"]] == ["away", "idle"]
        async with http.get("/sessions", params={"after": first["next_after"]}) as answer:
            rest = await answer.json()
        assert [one["client_id"] for one in rest["sessions"]] == ["reader"]
        assert rest["next_after"] is None
        async with http.get("/sessions", params={"prefix": "i"}) as answer:
            assert [one["client_id"] for one in (await answer.json())["sessions"]] == ["idle"]

    over_the_socket(tmp_path, overview(busy_router(), store=Figures()), check)


@pytest.mark.parametrize(
    ("limit", "why"), [("0", "limit is 0"), ("1001", "limit is 1001"), ("x", "limit is 'x'")]
)
def test_a_page_out_of_bounds_is_refused(tmp_path: Path, limit: str, why: str) -> None:
    async def check(http: Http) -> None:
        async with http.get("/sessions", params={"limit": limit}) as answer:
            status, detail = await problem(answer)
        assert status == 400
        assert detail.startswith(why)

    over_the_socket(tmp_path, overview(busy_router()), check)


AWKWARD = ("a/b", "..", ".", "%2F", "?x=1#y", "\x01\u2028é\U0001f600", "a b+c&d", "x" * 65_535)


@pytest.mark.parametrize("client_id", AWKWARD, ids=range(len(AWKWARD)))
def test_any_client_can_be_found_and_kicked(tmp_path: Path, client_id: str) -> None:
    router = busy_router()
    session = join(router, client_id, expiry_s=60)

    async def check(http: Http) -> None:
        async with http.get("/sessions", params={"prefix": client_id[:1_000]}) as answer:
            assert client_id in [one["client_id"] for one in (await answer.json())["sessions"]]
        async with http.post("/sessions/kick", json={"client_id": client_id}) as answer:
            assert answer.status == 200
            assert await answer.json() == {"kicked": client_id}
        assert session.link is None
        assert client_id in router.sessions
        async with http.post(
            "/sessions/kick", json={"client_id": client_id, "forget": True}
        ) as answer:
            assert answer.status == 200
        assert client_id not in router.sessions

    over_the_socket(tmp_path, overview(router), check)


def test_an_unknown_client_is_404(tmp_path: Path) -> None:
    async def check(http: Http) -> None:
        async with http.post("/sessions/kick", json={"client_id": "nobody"}) as answer:
            assert await problem(answer) == (404, "no session of client 'nobody' is here")

    over_the_socket(tmp_path, overview(busy_router()), check)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "Invalid JSON"),
        (b"{}", "client_id: is missing"),
        (b'{"client_id": 1}', "valid string"),
        (b'{"client_id": "c", "forgot": true}', "forgot: no such setting"),
    ],
)
def test_a_kick_that_says_something_else_is_400(tmp_path: Path, body: bytes, why: str) -> None:
    async def check(http: Http) -> None:
        async with http.post("/sessions/kick", data=body) as answer:
            status, detail = await problem(answer)
        assert status == 400
        assert why in detail

    over_the_socket(tmp_path, overview(busy_router()), check)


def test_a_body_over_its_bound_is_413(tmp_path: Path) -> None:
    async def check(http: Http) -> None:
        async with http.post("/sessions/kick", data=b"x" * 600_000) as answer:
            assert (await problem(answer))[0] == 413

    over_the_socket(tmp_path, overview(busy_router()), check)


def test_what_is_not_there_is_a_problem_too(tmp_path: Path) -> None:
    async def check(http: Http) -> None:
        async with http.get("/nothing") as answer:
            assert (await problem(answer))[0] == 404
        async with http.get("/sessions/kick") as answer:
            assert (await problem(answer))[0] == 405
            assert answer.headers["Allow"] == "POST"

    over_the_socket(tmp_path, overview(busy_router()), check)


class Broken:
    """A broker with a bug."""

    async def status(self) -> Status:
        raise RuntimeError("secret")

    def page(self, *, after: str = "", prefix: str = "", limit: int = 100) -> SessionPage:
        raise NotImplementedError

    async def kick(self, client_id: str, *, forget: bool) -> bool:
        raise NotImplementedError


def test_a_bug_is_in_the_log_and_not_in_the_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def check(http: Http) -> None:
        async with http.get("/status") as answer:
            assert await problem(answer) == (500, "a fault of the broker; see its log")

    over_the_socket(tmp_path, Broken(), check)
    assert [one.message for one in caplog.records] == ["request_failed"]


def over_tcp(broker: Operable, check: Callable[[Http], Awaitable[None]]) -> None:
    async def run() -> None:
        async with (
            metrics_listening(broker, "127.0.0.1", 0) as port,
            Http(f"http://127.0.0.1:{port}") as http,
        ):
            await check(http)

    asyncio.run(run())


def test_tcp_has_numbers_and_health_and_nothing_else() -> None:
    async def check(http: Http) -> None:
        async with http.get("/metrics") as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            assert b"hybridge_broker_connections 3.0" in await answer.read()
        async with http.get("/healthz") as answer:
            assert (answer.status, await answer.json()) == (200, {"healthy": True})
        for path in ("/status", "/sessions"):
            async with http.get(path) as answer:
                assert (await problem(answer))[0] == 404
        async with http.post("/sessions/kick", json={"client_id": "idle"}) as answer:
            assert (await problem(answer))[0] == 404

    over_tcp(overview(busy_router()), check)


def test_a_broker_whose_store_fails_is_not_healthy() -> None:
    async def check(http: Http) -> None:
        async with http.get("/healthz") as answer:
            status, detail = await problem(answer)
        assert status == 503
        assert "the store cannot commit" in detail

    over_tcp(overview(busy_router(), store=Figures(is_failing=True)), check)


def test_the_socket_has_metrics_too(tmp_path: Path) -> None:
    async def check(http: Http) -> None:
        async with http.get("/metrics") as answer:
            assert answer.status == 200

    over_the_socket(tmp_path, overview(Router(busy_router().limits, lambda: "x")), check)
