"""The online tier's report over real HTTP, whatever is at the other end."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from cloud.batch.load_reader import LoadReader
from cloud.batch.online_load import OnlineLoad
from shared.errors import Malformed, Refused

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
REPORT = {"busy_share": 0.25, "queue_depth": 3, "p99_ms": 4.5, "p99_target_ms": None, "new": [1]}


def ask(handler: Handler, api_key: str | None = None) -> tuple[OnlineLoad | None, str]:
    async def main() -> tuple[OnlineLoad | None, str]:
        app = web.Application()
        app.router.add_get("/v1/status", handler)
        async with TestServer(app) as server, LoadReader(str(server.make_url("")), api_key) as load:
            return await load.read(), load.why_not

    return asyncio.run(main())


def saying(body: Any, **more: Any) -> Handler:
    async def handler(_: web.Request) -> web.Response:
        return web.json_response(body, **more)

    return handler


def test_a_report_with_members_that_are_not_known() -> None:
    load, _ = ask(saying(REPORT))
    assert load == OnlineLoad(busy_share=0.25, queue_depth=3, p99_ms=4.5)


def test_the_key_goes_along() -> None:
    async def handler(request: web.Request) -> web.Response:
        allowed = request.headers.get("X-API-Key") == "k"
        return web.json_response(REPORT, status=200 if allowed else 401)

    assert ask(handler, "k")[0] is not None
    with pytest.raises(Refused, match="401; give --key-file"):
        ask(handler)


@pytest.mark.parametrize(
    ("change", "member"),
    [
        ({"busy_share": 1.5}, "busy_share"), ({"queue_depth": -1}, "queue_depth"),
        ({"busy_share": None}, "busy_share"), ({"p99_ms": "NaN"}, "p99_ms"),
    ],
)  # fmt: skip
def test_a_report_that_makes_no_sense_is_none(change: dict[str, Any], member: str) -> None:
    assert ask(saying({**REPORT, **change})) == (None, f"its report lacks or garbles {member}")


def test_no_json_at_all() -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(text="<html>")

    assert ask(handler) == (None, "its report lacks or garbles everything")


def test_a_report_without_end_is_left() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(65):
            await response.write(b" " * 1024)
        return response

    assert ask(handler) == (None, "its report is over 65536 bytes")


def test_a_report_that_does_not_come_is_left_after_a_second() -> None:
    async def handler(request: web.Request) -> web.Response:
        await asyncio.sleep(30)  # cut off when the server ends
        return web.Response()

    load, why_not = ask(handler)
    assert load is None
    assert why_not


def test_nobody_there() -> None:
    async def main() -> tuple[OnlineLoad | None, str]:
        async with LoadReader("http://127.0.0.1:9") as load:
            return await load.read(), load.why_not

    load, why_not = asyncio.run(main())
    assert load is None
    assert "127.0.0.1:9" in why_not


@pytest.mark.parametrize("url", ["", "127.0.0.1:8600", "ftp://host", "http://"])
def test_urls_that_name_no_server(url: str) -> None:
    with pytest.raises(Malformed, match="write it as http://host:port"):
        LoadReader(url)
