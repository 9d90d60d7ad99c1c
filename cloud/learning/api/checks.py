"""Routes: whether training and serving see the same."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Final

from aiohttp import web

from cloud.api.kept_turns import to_its_end
from cloud.api.middleware import caller_of
from cloud.api.routes import Route, document
from cloud.api.turns import Turns
from cloud.gateway.roles import Role
from cloud.learning.api import schemas
from cloud.learning.documents import FeatureCheck
from cloud.learning.feature_checking import FeatureChecking

_OK = HTTPStatus.OK
_CHECKS_MAX: Final = 2
"""That are asked for: one is made at a time, one may wait for it."""


class CheckRoutes:
    def __init__(self, checking: FeatureChecking) -> None:
        self._checking = checking
        self._turns = Turns("feature checks", _CHECKS_MAX)

    def routes(self) -> Iterator[Route]:
        yield Route(
            "GET", "/v1/checks", self._list, "The newest feature check of each model", Role.VIEWER,
            {_OK: schemas.Checks},
        )  # fmt: skip
        yield Route(
            "POST", "/v1/checks/{model}", self._check,
            "Compare training's reader with a worker's on a cloud model's newest samples, now",
            Role.TRAINER, {_OK: FeatureCheck}, takes=schemas.Nothing,
            problems=(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS),
        )  # fmt: skip

    async def _list(self, _: web.Request) -> web.Response:
        return document(schemas.Checks(checks=tuple(await self._checking.checks())))

    async def _check(self, request: web.Request) -> web.Response:
        model = request.match_info["model"]
        return document(
            await to_its_end(self._turns, caller_of(request), lambda: self._checking.check(model))
        )
