"""What a request goes through before its handler."""

import asyncio

from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from prometheus_client import CollectorRegistry

from cloud.api.connections import Connections
from cloud.api.metrics import ApiMetrics
from cloud.api.middleware import identifying
from cloud.api.settings import Api


def test_pipelined_requests_take_turns_with_everybody_elses() -> None:
    """Else the loop answers all of a client's, a hundredth of a second, before it looks around."""
    turns = list[str]()

    async def handler(_: web.Request) -> web.StreamResponse:
        turns.append("request")
        return web.Response()

    async def pipeline() -> None:
        one = identifying(Connections(Api(), ApiMetrics(CollectorRegistry())))
        for _ in range(2):
            asyncio.get_running_loop().call_soon(turns.append, "somebody else")
            await one(make_mocked_request("GET", "/"), handler)

    asyncio.run(pipeline())
    assert turns == ["somebody else", "request"] * 2
