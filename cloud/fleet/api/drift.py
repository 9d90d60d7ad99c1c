"""Routes: drift of inputs, answers and accuracy, and its alarms."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import get_args

from aiohttp import web

from cloud.api.asking import QUERY, Asking, actor_of, number_of
from cloud.api.routes import Query, Route, document
from cloud.fleet.api import schemas
from cloud.fleet.api.checked import PATHS
from cloud.fleet.api.settings import FleetApi
from cloud.fleet.bounds import shown
from cloud.fleet.drift.drifting import Drifting
from cloud.gateway.roles import Role
from cloud.monitoring.drift.documents import Alarm, DriftState
from cloud.monitoring.drift.states import ScopeKind
from shared.errors import Malformed

_OK, _MISSING = HTTPStatus.OK, HTTPStatus.NOT_FOUND
_PATH = "/v1/drift/alarms/{alarm}"
_ON = {"true": True, "false": False}


class DriftRoutes:
    def __init__(self, drifting: Drifting, asking: Asking, limits: FleetApi) -> None:
        self._drifting, self._asking, self._limits = drifting, asking, limits

    def routes(self) -> Iterator[Route]:
        page = (Query("after"), Query("limit", minimum=1, maximum=1000))
        yield Route(
            "GET", "/v1/drift", self._state,
            "The newest window of each scope (device, group, fleet), and the alarms that are on",
            Role.VIEWER, {_OK: DriftState},
            queries=(Query("kind"), Query("name"), Query("model"), *page),
        )  # fmt: skip
        yield Route(
            "GET", "/v1/drift/alarms", self._alarms, "Alarms of drift, the newest first",
            Role.VIEWER, {_OK: schemas.DriftAlarms}, queries=(Query("on"), *page),
        )  # fmt: skip
        yield Route(
            "GET", _PATH, self._alarm, "An alarm: what drifts, why, and what to do about it",
            Role.VIEWER, {_OK: Alarm}, problems=(_MISSING,),
        )  # fmt: skip
        yield Route(
            "POST", _PATH + "/seen", self._seen, "Say that somebody looks after it",
            Role.OPERATOR, {_OK: Alarm}, takes=schemas.CommentRequest, problems=(_MISSING,),
        )  # fmt: skip

    async def _state(self, request: web.Request) -> web.Response:
        query = request[QUERY]
        name, model = query.get("name"), query.get("model")
        for what, value in (("device", name), ("model", model)):
            if value is not None:
                PATHS.check(what, value)
        return document(
            await self._drifting.state(
                _kind(query.get("kind")), name, model, query.get("after", ""), self._limit(request)
            )
        )  # fmt: skip

    async def _alarms(self, request: web.Request) -> web.Response:
        query = request[QUERY]
        is_on, after = query.get("on"), query.get("after", "")
        if is_on is not None and is_on not in _ON:
            raise Malformed(f"query: on is {shown(is_on)}; want true or false")
        if after:
            PATHS.check("alarm", after)
        found, following = await self._drifting.alarms(
            is_on=None if is_on is None else _ON[is_on], after=after, limit=self._limit(request)
        )
        return document(schemas.DriftAlarms(alarms=tuple(found), next=following))

    async def _alarm(self, request: web.Request) -> web.Response:
        return document(await self._drifting.alarm(request.match_info["alarm"]))

    async def _seen(self, request: web.Request) -> web.Response:
        asked = await self._asking.read(request, schemas.CommentRequest)
        alarm = request.match_info["alarm"]
        return document(await self._drifting.seen(alarm, asked.comment, actor_of(request)))

    def _limit(self, request: web.Request) -> int:
        return min(number_of(request, "limit", 100), self._limits.page_max)


def _kind(text: str | None) -> ScopeKind | None:
    """Raises `Malformed`."""
    for kind in get_args(ScopeKind):
        if text == kind:
            found: ScopeKind = kind
            return found
    if text is None:
        return None
    raise Malformed(f"query: kind is {shown(text)}; want one of {', '.join(get_args(ScopeKind))}")
