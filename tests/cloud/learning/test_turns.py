"""Who asks for what takes seconds of a core, again and again, is told to come again."""

import asyncio
import gc
from http import HTTPStatus
from typing import cast

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from cloud.api.asking import Asking
from cloud.api.routes import Route
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

    async def fitted(self, model: str) -> Refit:
        return await asyncio.Future()

    async def check(self, model: str) -> FeatureCheck:
        return await asyncio.Future()


def refits() -> Route:
    routes = LoopRoutes(
        cast("LoopDesk", None), cast("Refitting", Endless()), cast("Asking", None), LearningApi(),
        asyncio.Event(),
    )  # fmt: skip
    return next(one for one in routes.routes() if one.operation_id == "get_v1_loops_model_refit")


def checks() -> Route:
    routes = CheckRoutes(cast("FeatureChecking", Endless()))
    return next(one for one in routes.routes() if one.operation_id == "post_v1_checks_model")


@pytest.mark.parametrize("made", [refits, checks])
def test_two_are_under_way_at_once_though_who_asked_has_left(made) -> None:
    async def main() -> None:
        route = made()
        assert HTTPStatus.TOO_MANY_REQUESTS in route.problems

        def ask() -> web.Request:
            return make_mocked_request(route.method, "/", match_info={"model": "edge"})

        for _ in range(2):
            asked = asyncio.create_task(route.handler(ask()))
            await asyncio.sleep(0)
            asked.cancel()
        await asyncio.sleep(0)
        gc.collect()
        with pytest.raises(Overloaded, match=r"2 .* are under way"):
            await route.handler(ask())

    asyncio.run(main())
