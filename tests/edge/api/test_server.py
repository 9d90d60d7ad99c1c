import asyncio

import aiohttp
import pytest
from aiohttp import web

from edge.api.problems import TABLE
from edge.api.server import build_app, serving
from shared import errors
from shared.errors import InUse
from tests.edge.api.fake_agent import FakeAgent
from tests.edge.api.running import running

TURNS = 20
"""Of the event loop: more than the end of a server takes before it waits for its requests."""


def test_a_port_that_is_taken() -> None:
    async def scenario() -> None:
        async with running() as server:
            app = build_app(server.agent, server.agent)
            with pytest.raises(InUse, match=f"127.0.0.1:{server.port}"):
                async with serving(app, "127.0.0.1", server.port):
                    pass

    asyncio.run(scenario())


def test_a_web_page_is_refused() -> None:
    async def scenario() -> None:
        async with running() as server:
            origin = {"Origin": "http://evil.example"}
            async with server.http.post("/v2/models/tiny-edge/infer", headers=origin) as answer:
                assert (answer.status, "web page" in await answer.text()) == (403, True)
            async with server.http.get("/v2/health/live") as answer:
                assert answer.status == 200

    asyncio.run(scenario())


def test_a_request_in_flight_is_answered_while_the_server_stops() -> None:
    class Slow(FakeAgent):
        def __init__(self) -> None:
            super().__init__()
            self.stopping = asyncio.Event()

        async def answer(self, sample):  # type: ignore[no-untyped-def]  # as above it
            self.escalated.set()
            await self.stopping.wait()
            for _ in range(TURNS):  # the server has come to wait for this answer alone
                await asyncio.sleep(0)
            return await super().answer(sample)

        async def server_stops(self, _: web.Application) -> None:
            self.stopping.set()

    async def scenario() -> None:
        agent = Slow()
        app = build_app(agent, agent)
        app.on_shutdown.append(agent.server_stops)
        async with aiohttp.ClientSession() as http:
            async with serving(app, "127.0.0.1", 0) as port:
                url = f"http://127.0.0.1:{port}/v2/models/tiny-edge/infer"
                tensor = {
                    "name": "image", "datatype": "UINT8", "shape": [1, 4, 4], "data": [0] * 16,
                }  # fmt: skip
                asking = asyncio.create_task(http.post(url, json={"inputs": [tensor]}))
                await agent.escalated.wait()
                assert not agent.stopping.is_set()
            response = await asking
            assert response.status == 200

    asyncio.run(scenario())


def test_every_error_of_the_tree_has_its_row() -> None:
    kinds = {
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.HybridgeError)
    }
    assert kinds - {errors.HybridgeError} == set(TABLE)
