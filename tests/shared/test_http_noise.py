"""Garbage on a real HTTP server, many times over."""

import asyncio
import logging
from collections import Counter

import pytest
from aiohttp import web

from shared.http_noise import quiet_logger

_GARBAGE = (b"\x16\x03\x01 hello\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET /\0 HTTP/1.1\r\n\r\n")


def test_garbage_is_one_line_and_a_count(caplog: pytest.LogCaptureFixture) -> None:
    seen = Counter[str]()

    async def broken(_: web.Request) -> web.Response:
        raise ZeroDivisionError

    async def scenario() -> None:
        app = web.Application()
        app.router.add_get("/", broken)
        runner = web.AppRunner(
            app, access_log=None, logger=quiet_logger(lambda: seen.update(["unreadable"]))
        )
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        for said in (*_GARBAGE, *_GARBAGE, b"GET / HTTP/1.0\r\nHost: x\r\n\r\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(said)
            assert (await reader.read()).startswith(b"HTTP/1.0 ")
            writer.close()
        await runner.cleanup()

    asyncio.run(scenario())
    assert seen == {"unreadable": 6}
    garbage, bug = caplog.records
    assert (garbage.message, garbage.levelno) == ("http_unreadable", logging.WARNING)
    assert garbage.exc_info is None
    assert "\n" not in vars(garbage)["why"]
    assert bug.exc_info is not None


def test_what_is_left_of_a_broken_body_is_noise_too(caplog: pytest.LogCaptureFixture) -> None:
    seen = Counter[str]()

    async def refuses(request: web.Request) -> web.Response:
        try:
            await request.read()
        except web.RequestPayloadError:
            return web.Response(status=400)
        return web.Response()

    async def scenario() -> None:
        app = web.Application()
        app.router.add_post("/", refuses)
        runner = web.AppRunner(
            app, access_log=None, logger=quiet_logger(lambda: seen.update(["unreadable"]))
        )
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        for _ in range(3):
            reader, writer = await asyncio.open_connection(*runner.addresses[0][:2])
            writer.write(
                b"POST / HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\n"
                b"Content-Length: 5\r\nConnection: close\r\n\r\nxxxxx"
            )
            assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
            writer.close()
        await runner.cleanup()

    asyncio.run(scenario())
    assert seen["unreadable"] == 3
    (line,) = caplog.records
    assert (line.message, line.exc_info) == ("http_unreadable", None)
