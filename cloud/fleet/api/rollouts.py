"""Routes: rollouts, from a draft to their end, and watching one."""

import asyncio
from collections.abc import Iterator
from http import HTTPStatus
from typing import get_args

from aiohttp import web

from cloud.api.asking import QUERY, Asking, actor_of, number_of, revision_of, wait_s_of
from cloud.api.checked import shown
from cloud.api.middleware import caller_of
from cloud.api.routes import Handler, Query, Route, document, revised
from cloud.api.turns import Turns
from cloud.fleet.api import schemas
from cloud.fleet.api.checked import PATHS
from cloud.fleet.api.settings import FleetApi
from cloud.fleet.control import Control
from cloud.fleet.driving.commands import Verb
from cloud.gateway.roles import Role
from cloud.rollouts.documents import Phase, RolloutPlan, RolloutStatus, RolloutView
from shared.errors import Malformed

_OK, _MISSING, _CONFLICT = HTTPStatus.OK, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT
_PATH = "/v1/rollouts/{rollout}"
_ABOUT = {
    "start": "Start a draft: its devices and their order are fixed from now on",
    "pause": "Order nothing more",
    "resume": "Go on",
    "approve": "A person's word for the next stage",
    "skip": "Do not wait for the present stage's time and samples; evidence against it still counts",
    "abort": "End it; its devices stay as they are",
    "undo": "End it; its devices go back to what they had",
    "retry": "Try again on the devices that failed",
}


class RolloutRoutes:
    def __init__(
        self, control: Control, asking: Asking, limits: FleetApi, ending: asyncio.Event
    ) -> None:
        """`ending` is set when this process takes nothing new."""
        self._control, self._driver, self._asking = control, control.driver, asking
        self._limits, self._ending = limits, ending
        self._waits = Turns("questions that wait for a rollout", limits.waits_max)

    def routes(self) -> Iterator[Route]:
        yield Route(
            "POST", "/v1/rollouts", self._create, "Make a draft: nothing moves before its start",
            Role.OPERATOR, {HTTPStatus.CREATED: RolloutView}, takes=schemas.RolloutRequest,
            problems=(_MISSING, _CONFLICT),
        )  # fmt: skip
        yield Route(
            "POST", "/v1/rollouts/plan", self._plan, "Which devices would move when; makes nothing",
            Role.VIEWER, {_OK: RolloutPlan}, takes=schemas.RolloutRequest,
            problems=(_MISSING, _CONFLICT),
        )  # fmt: skip
        yield Route(
            "GET", "/v1/rollouts", self._list, "Rollouts, the newest first", Role.VIEWER,
            {_OK: schemas.Rollouts}, queries=(Query("status"),),
        )  # fmt: skip
        yield Route(
            "GET", _PATH, self._get, "A rollout: its stages and evidence", Role.VIEWER,
            {_OK: RolloutView}, problems=(_MISSING,),
        )  # fmt: skip
        yield Route(
            "GET", _PATH + "/watch", self._watch,
            "The rollout once its ETag differs from `revision`, or after `wait_s` seconds as it is",
            Role.VIEWER, {_OK: RolloutView}, problems=(_MISSING, HTTPStatus.TOO_MANY_REQUESTS),
            queries=(Query("revision"), Query("wait_s")),
        )  # fmt: skip
        yield Route(
            "GET", _PATH + "/devices", self._devices, "Its devices by name", Role.VIEWER,
            {_OK: schemas.RolloutDevices}, problems=(_MISSING,),
            queries=(Query("phase"), Query("after"), Query("limit", minimum=1, maximum=10_000)),
        )  # fmt: skip
        yield Route(
            "GET", _PATH + "/history", self._history, "What happened to it, the oldest first",
            Role.VIEWER, {_OK: schemas.Events}, problems=(_MISSING,),
            queries=(
                Query("after", minimum=0, maximum=2**53), Query("limit", minimum=1, maximum=1000),
            ),
        )  # fmt: skip
        for verb in get_args(Verb):
            yield Route(
                "POST", f"{_PATH}/{verb}", self._tell(verb), _ABOUT[verb],
                Role.APPROVER if verb == "approve" else Role.OPERATOR, {_OK: RolloutView},
                takes=schemas.CommentRequest, problems=(_MISSING, _CONFLICT),
            )  # fmt: skip

    async def _create(self, request: web.Request) -> web.Response:
        asked = await self._asking.read(request, schemas.RolloutRequest)
        spec = await self._control.specified(asked)
        return revised(await self._driver.create(spec, actor_of(request)), HTTPStatus.CREATED)

    async def _plan(self, request: web.Request) -> web.Response:
        asked = await self._asking.read(request, schemas.RolloutRequest)
        return document(await self._driver.plan(await self._control.specified(asked)))

    async def _list(self, request: web.Request) -> web.Response:
        status = request[QUERY].get("status")
        known = [one.value for one in RolloutStatus]
        if status is not None and status not in known:
            raise Malformed(f"query: status is {shown(status)}; want one of {', '.join(known)}")
        found = await self._driver.views(None if status is None else RolloutStatus(status))
        return document(schemas.Rollouts(rollouts=tuple(found)))

    async def _get(self, request: web.Request) -> web.Response:
        return revised(await self._driver.view(request.match_info["rollout"]))

    async def _watch(self, request: web.Request) -> web.Response:
        seen = request[QUERY].get("revision")
        wait_s = wait_s_of(request, self._limits.wait_s_max)
        name = request.match_info["rollout"]
        with self._waits.one(caller_of(request)):
            view, tag = await self._driver.watch(name, seen, wait_s, self._ending)
        response = document(view)
        response.headers["ETag"] = f'"{tag}"'
        return response

    async def _devices(self, request: web.Request) -> web.Response:
        query = request[QUERY]
        phase, after = query.get("phase"), query.get("after", "")
        known = [one.value for one in Phase]
        if phase is not None and phase not in known:
            raise Malformed(f"query: phase is {shown(phase)}; want one of {', '.join(known)}")
        if after:
            PATHS.check("device", after)
        limit = min(number_of(request, "limit", 1000), self._limits.page_max)
        name = request.match_info["rollout"]
        devices, following = await asyncio.to_thread(
            self._control.fleet.rollout_devices, name,
            None if phase is None else Phase(phase), after, limit,
        )  # fmt: skip
        return document(schemas.RolloutDevices(devices=tuple(devices), next=following))

    async def _history(self, request: web.Request) -> web.Response:
        name = request.match_info["rollout"]
        await self._driver.view(name)  # whether there is one
        found = await asyncio.to_thread(
            self._control.fleet.events, number_of(request, "after", 0),
            number_of(request, "limit", 1000), rollout=name,
        )  # fmt: skip
        return document(schemas.Events(events=tuple(found)))

    def _tell(self, verb: Verb) -> Handler:
        async def handler(request: web.Request) -> web.Response:
            revision = revision_of(request)
            asked = await self._asking.read(request, schemas.CommentRequest)
            view = await self._driver.tell(
                request.match_info["rollout"], verb, actor_of(request), asked.comment, revision
            )
            return revised(view)

        return handler
