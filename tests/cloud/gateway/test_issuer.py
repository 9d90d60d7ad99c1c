"""Against a real HTTP server of an issuer, on a free port."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from cloud.gateway.counts import GatewayCounts
from cloud.gateway.gateway import Gateway
from cloud.gateway.issuer import IssuerUrl
from cloud.gateway.refresh import RefreshRules
from cloud.gateway.refusals import RateLimited
from cloud.gateway.settings import GatewaySettings
from shared.errors import Unavailable
from tests.cloud.gateway.issuing import AT, AUDIENCE, ISSUER, Signer, jwks
from tests.cloud.gateway.waiting import until

ONE, TWO = Signer("one"), Signer("two")
QUICK = RefreshRules(refresh_s=0.01, pause_s_min=0.005, stale_s_max=1000)
SLOW = RefreshRules(refresh_s=300, pause_s_min=30, stale_s_max=1000)


class Server:
    """An issuer whose answer may be changed."""

    def __init__(self, body: bytes) -> None:
        self.answer: Callable[[web.Request], Awaitable[web.StreamResponse]] = self.body(body)
        self.asked = 0
        self._turn = asyncio.Event()

    @staticmethod
    def body(body: bytes, status: int = 200, **headers: str):
        async def answer(_: web.Request) -> web.Response:
            return web.Response(body=body, status=status, headers=headers)

        return answer

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked += 1
        self._turn.set()
        self._turn = asyncio.Event()
        return await self.answer(request)

    async def asked_again(self, times: int) -> None:
        """Wait until it was asked that often from now on: the answer before the last was used."""
        goal = self.asked + times
        async with asyncio.timeout(20):
            while self.asked < goal:
                await self._turn.wait()


class Running:
    issuer: IssuerUrl

    def __init__(self, server: Server) -> None:
        self.server = server
        self.now = 1000.0
        self.changes = 0

    def change(self) -> None:
        self.changes += 1


@asynccontextmanager
async def serving(server: Server) -> AsyncGenerator[str]:
    app = web.Application()
    app.router.add_get("/keys", server.handle)
    app.router.add_get("/elsewhere", server.body(jwks(TWO)))
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/keys"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def running(
    body: bytes, rules: RefreshRules, timeout_s: float = 5
) -> AsyncGenerator[Running]:
    server = Server(body)
    async with serving(server) as url, fetching(server, url, rules, timeout_s) as found:
        yield found


@asynccontextmanager
async def fetching(
    server: Server, url: str, rules: RefreshRules, timeout_s: float
) -> AsyncGenerator[Running]:
    counts = GatewayCounts(CollectorRegistry())
    it = Running(server)
    issuer = it.issuer = IssuerUrl(url, rules, timeout_s, counts, it.change, clock=lambda: it.now)
    task = asyncio.create_task(issuer.run())
    try:
        yield it
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_keys_are_fetched_and_a_new_one_is_seen() -> None:
    async def scenario() -> None:
        async with running(jwks(ONE), QUICK) as it:
            await it.server.asked_again(2)
            assert list(it.issuer.keys(it.now).raw) == ["one"]
            it.server.answer = it.server.body(jwks(ONE, TWO))
            await it.server.asked_again(2)
            assert list(it.issuer.keys(it.now).raw) == ["one", "two"]
            assert it.changes == 0  # what was checked stays checked
            it.server.answer = it.server.body(jwks(TWO))
            await it.server.asked_again(2)
            assert it.changes == 1  # what the lost key vouched for is checked anew

    asyncio.run(scenario())


async def flood(request: web.Request) -> web.StreamResponse:
    """Send for ever, as fast as it is read."""
    response = web.StreamResponse()
    await response.prepare(request)
    try:
        while True:
            await response.write(b" " * 65_536)
    except (ConnectionError, asyncio.CancelledError):
        return response


def test_the_last_good_keys_stay_while_the_issuer_is_down(caplog) -> None:
    caplog.set_level(logging.INFO)

    async def scenario() -> None:
        async with running(jwks(ONE), QUICK, timeout_s=60) as it:  # longer than we wait here
            await it.server.asked_again(2)
            for answer in (
                it.server.body(jwks(TWO), status=503),
                it.server.body(b"<html>"),
                it.server.body(b'{"keys": []}'),
                it.server.body(b"", status=302, Location="/elsewhere"),
                flood,
                it.server.body(b" " * 300_000 + jwks(TWO)),
            ):
                it.server.answer = answer
                await it.server.asked_again(2)
                assert list(it.issuer.keys(it.now).raw) == ["one"]
            assert it.issuer.keys(it.now + 1000) is None  # but not for ever
            it.server.answer = it.server.body(jwks(ONE))
            await it.server.asked_again(2)

    asyncio.run(scenario())
    said = [record.message for record in caplog.records]
    assert said == ["issuer_lost", "issuer_back"]  # once when lost, once when back


def test_an_issuer_that_never_ends_its_answer_is_given_up() -> None:
    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b" ")
                await asyncio.sleep(0.01)
        except (ConnectionError, asyncio.CancelledError):
            return response

    async def scenario() -> None:
        async with running(jwks(ONE), QUICK, timeout_s=0.1) as it:
            await it.server.asked_again(2)
            it.server.answer = drip
            await it.server.asked_again(3)
            assert list(it.issuer.keys(it.now).raw) == ["one"]

    asyncio.run(scenario())


def test_random_key_ids_do_not_hammer_the_issuer() -> None:
    async def scenario() -> None:
        async with running(jwks(ONE), SLOW) as it:
            await it.server.asked_again(1)
            await until(lambda: it.issuer.keys(it.now))
            assert it.server.asked == 1
            it.now += 29
            for _ in range(1000):
                assert not it.issuer.missed(it.now)
                await asyncio.sleep(0)
            assert it.server.asked == 1
            it.now += 1
            it.server.answer = it.server.body(jwks(ONE, TWO))
            assert it.issuer.missed(it.now)
            for _ in range(1000):
                it.issuer.missed(it.now)
            await it.server.asked_again(1)
            await until(lambda: it.issuer.keys(it.now).find("two"))
            for _ in range(1000):
                assert not it.issuer.missed(it.now)
                await asyncio.sleep(0)
            assert it.server.asked == 2

    asyncio.run(scenario())


def test_an_issuer_that_is_not_there_leaves_no_keys() -> None:
    async def scenario() -> None:
        counts = GatewayCounts(CollectorRegistry())
        issuer = IssuerUrl("http://127.0.0.1:1/keys", SLOW, 1.0, counts, lambda: None)
        task = asyncio.create_task(issuer.run())
        await until(counts.read["issuer_keys", False]._value.get)
        assert issuer.keys(0.0) is None
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())


def test_a_token_of_a_new_key_is_told_to_come_again_and_then_let_in(tmp_path) -> None:
    async def scenario() -> None:
        server = Server(jwks(ONE))
        async with serving(server) as url:
            settings = GatewaySettings.model_validate({
                "tokens": {
                    "issuer": ISSUER, "audience": AUDIENCE, "keys_url": url,
                    "refresh_s": 1000, "pause_s_min": 0.001,
                },
                "failures_burst": 1,
            })  # fmt: skip
            gateway = Gateway(settings, GatewayCounts(CollectorRegistry()), wall=lambda: AT)
            parts = asyncio.create_task(gateway.run())

            def admit(token: str, address: str | None = None):
                return gateway.admit(f"Bearer {token}", None, time.monotonic() + 1, address)

            with pytest.raises(Unavailable, match="not here yet") as refused:
                admit(ONE.token())
            assert refused.value.retry_after_s == 1.0
            await until(lambda: gateway._trusted.issuer.keys(time.monotonic()))
            assert admit(ONE.token(sub="first")).name == "first"
            server.answer = server.body(jwks(TWO))
            with pytest.raises(Unavailable, match="names a key that is being asked for") as refused:
                admit(TWO.token(), "192.0.2.1")
            assert refused.value.retry_after_s == 1.0
            with pytest.raises(RateLimited):  # it cost a look all the same
                admit(TWO.token(), "192.0.2.1")
            await until(lambda: gateway._trusted.issuer.keys(time.monotonic()).find("two"))
            assert admit(TWO.token(sub="second")).name == "second"
            with pytest.raises(Unavailable):  # remembered, but its key is gone
                admit(ONE.token(sub="first"))
            gateway.drain()
            await parts

    asyncio.run(scenario())
