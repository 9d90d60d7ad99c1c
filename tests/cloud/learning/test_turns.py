"""Who asks for what takes seconds of a core, again and again, is told to come again."""

import asyncio
import gc
from collections.abc import Awaitable
from http import HTTPStatus
from typing import cast

import pytest
from aiohttp import web
from aiohttp.streams import EMPTY_PAYLOAD
from aiohttp.test_utils import make_mocked_request
from prometheus_client import CollectorRegistry

from cloud.api.asking import Asking
from cloud.api.bodies import CONNECTIONS
from cloud.api.connections import Connections
from cloud.api.metrics import ApiMetrics
from cloud.api.middleware import CALLER
from cloud.api.room import Room
from cloud.api.routes import Route
from cloud.gateway.budget import Budget, CallerLimits
from cloud.gateway.caller import Caller
from cloud.gateway.permits import Permits
from cloud.learning.api.checks import CheckRoutes
from cloud.learning.api.loops import LoopRoutes
from cloud.learning.api.settings import LearningApi
from cloud.learning.documents import FeatureCheck, Refit
from cloud.learning.feature_checking import FeatureChecking
from cloud.learning.loop.desk import LoopDesk
from cloud.learning.refitting import Refitting
from shared.errors import Overloaded


class Endless:
    """Refits and checks that never end."""

    def __init__(self) -> None:
        self.applied = asyncio.Queue[str]()

    async def apply(self, model: str, by: str, comment: str) -> Refit:
        self.applied.put_nowait(by)
        return await asyncio.Future()

    async def fitted(self, model: str) -> Refit:
        return await asyncio.Future()

    async def check(self, model: str) -> FeatureCheck:
        return await asyncio.Future()


def loop_routes(endless: Endless) -> dict[str, Route]:
    limits = LearningApi()
    routes = LoopRoutes(
        cast("LoopDesk", None), cast("Refitting", endless), Asking(limits, Room(1_000_000)), limits,
        asyncio.Event(),
    )  # fmt: skip
    return {one.operation_id: one for one in routes.routes()}


def refits() -> Route:
    return loop_routes(Endless())["get_v1_loops_model_refit"]


def checks() -> Route:
    routes = CheckRoutes(cast("FeatureChecking", Endless()))
    return next(one for one in routes.routes() if one.operation_id == "post_v1_checks_model")


def asked_by(name: str, route: Route) -> web.Request:
    request = make_mocked_request(
        route.method, "/", match_info={"model": "edge"}, payload=EMPTY_PAYLOAD
    )
    request[CONNECTIONS] = Connections(LearningApi(), ApiMetrics(CollectorRegistry()))
    limits = CallerLimits((), 1_000_000, 10)
    request[CALLER] = Caller(name, name, frozenset(), Budget(limits, cast("Permits", None)), 0.0)
    return request


@pytest.mark.parametrize("made", [refits, checks])
def test_two_are_under_way_at_once_though_who_asked_has_left(made) -> None:
    async def main() -> None:
        route = made()
        assert HTTPStatus.TOO_MANY_REQUESTS in route.problems

        for name in ("ann", "bob"):
            await left(route, name)
            with pytest.raises(Overloaded, match="1 of them yours"):
                await route.handler(asked_by(name, route))
        with pytest.raises(Overloaded, match=r"2 .* are under way"):
            await route.handler(asked_by("cat", route))

    asyncio.run(within_s(20, main()))


def test_who_only_looks_at_a_threshold_keeps_nobody_from_rolling_one_out() -> None:
    async def main() -> None:
        endless = Endless()
        routes = loop_routes(endless)
        for name in ("ann", "bob"):
            await left(routes["get_v1_loops_model_refit"], name)
        route = routes["post_v1_loops_model_refit"]
        asked = asyncio.create_task(route.handler(asked_by("approver", route)))
        begun = asyncio.create_task(endless.applied.get())
        await asyncio.wait({asked, begun}, return_when=asyncio.FIRST_COMPLETED)
        assert begun.done(), asked.exception()
        assert begun.result() == "approver"

    asyncio.run(within_s(20, main()))


async def within_s(bound_s: float, work: Awaitable[None]) -> None:
    async with asyncio.timeout(bound_s):
        await work


async def left(route: Route, name: str) -> None:
    """Somebody asked, and did not wait."""
    asked = asyncio.create_task(route.handler(asked_by(name, route)))
    await asyncio.sleep(0)
    asked.cancel()
    await asyncio.sleep(0)
    gc.collect()
