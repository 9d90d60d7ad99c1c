"""Routes: loops, their cycles, a person's word, and the threshold's refit."""

import asyncio
from collections.abc import Iterator
from http import HTTPStatus
from typing import Final

from aiohttp import web

from cloud.api.asking import QUERY, Asking, actor_of, number_of, revision_of, wait_s_of
from cloud.api.kept_turns import to_its_end
from cloud.api.middleware import caller_of
from cloud.api.routes import Query, Route, document, done, listing, revised
from cloud.api.turns import Turns
from cloud.gateway.roles import Role
from cloud.learning.api import schemas
from cloud.learning.api.checked import PATHS
from cloud.learning.api.settings import LearningApi
from cloud.learning.documents import Cycle, Decision, Loop, LoopSettings, Refit
from cloud.learning.loop.desk import LoopDesk
from cloud.learning.refitting import Refitting
from shared.errors import Malformed

_OK, _MISSING, _CONFLICT = HTTPStatus.OK, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT
_FULL = HTTPStatus.TOO_MANY_REQUESTS
_REFITS_MAX: Final = 2
"""At once; each reads tens of thousands of samples and asks registry and fleet."""
_APPLIED_MAX: Final = 2
"""Beside those: who only looks keeps nobody from rolling one out."""
_LOOP, _CYCLE = "/v1/loops/{model}", "/v1/cycles/{cycle}"


class LoopRoutes:
    def __init__(
        self, desk: LoopDesk, refitting: Refitting, asking: Asking, limits: LearningApi,
        ending: asyncio.Event,
    ) -> None:  # fmt: skip
        """`ending` is set when this process takes nothing new."""
        self._desk, self._refitting, self._asking = desk, refitting, asking
        self._limits, self._ending = limits, ending
        self._waits = Turns("questions that wait for a cycle", limits.waits_max)
        self._refits = Turns("refits", _REFITS_MAX)
        self._applied = Turns("refits that are rolled out", _APPLIED_MAX)

    def routes(self) -> Iterator[Route]:
        yield Route(
            "GET", "/v1/loops", self._list, "Every model's loop, and where it stands",
            Role.VIEWER, {_OK: schemas.Loops},
        )  # fmt: skip
        yield Route(
            "GET", _LOOP, self._get, "A model's loop", Role.VIEWER, {_OK: Loop},
            problems=(_MISSING,),
        )  # fmt: skip
        yield Route(
            "PUT", _LOOP, self._put,
            "Make a loop (If-Match 0 or none), or change it for its next cycle", Role.APPROVER,
            {_OK: Loop}, takes=LoopSettings, problems=(_CONFLICT, _FULL),
        )  # fmt: skip
        yield Route(
            "DELETE", _LOOP, self._remove, "Remove a loop whose cycle is over, or cannot be read: that one is given up", Role.APPROVER,
            {HTTPStatus.NO_CONTENT: ""}, problems=(_MISSING, _CONFLICT),
        )  # fmt: skip
        yield Route(
            "GET", _LOOP + "/cycles", self._cycles, "A model's cycles, the newest first",
            Role.VIEWER, {_OK: schemas.Cycles}, problems=(_MISSING,),
            queries=(Query("after"), Query("limit", minimum=1, maximum=10_000)),
        )  # fmt: skip
        yield Route(
            "POST", _LOOP + "/begin", self._begin, "Begin a cycle, whatever the triggers say",
            Role.APPROVER, {HTTPStatus.CREATED: Cycle}, takes=schemas.CommentRequest,
            problems=(_MISSING, _CONFLICT),
        )  # fmt: skip
        yield Route(
            "GET", _CYCLE, self._cycle,
            "A cycle; with `revision`, once it is of another one, or after `wait_s` seconds",
            Role.VIEWER, {_OK: Cycle}, problems=(_MISSING, _FULL),
            queries=(Query("revision", minimum=0, maximum=2**53), Query("wait_s")),
        )  # fmt: skip
        yield Route(
            "GET", _CYCLE + "/log", self._log, "What happened to a cycle, the oldest first",
            Role.VIEWER, {_OK: schemas.CycleLog}, problems=(_MISSING,),
        )  # fmt: skip
        yield Route(
            "POST", _CYCLE + "/decide", self._decide,
            "Say go before the step that it asks about, or stop it", Role.APPROVER, {_OK: Cycle},
            takes=Decision, problems=(_MISSING, _CONFLICT),
        )  # fmt: skip
        yield Route(
            "GET", _LOOP + "/refit", self._refit,
            "Which escalation threshold fresh audits would give; changes nothing", Role.VIEWER,
            {_OK: Refit}, problems=(_MISSING, _CONFLICT, _FULL),
        )  # fmt: skip
        yield Route(
            "POST", _LOOP + "/refit", self._apply_refit,
            "Fit the threshold anew and roll it out as the group's profile", Role.APPROVER,
            {_OK: Refit}, takes=schemas.CommentRequest, problems=(_MISSING, _CONFLICT, _FULL),
        )  # fmt: skip

    async def _list(self, _: web.Request) -> web.Response:
        return await listing("loops", await self._desk.loops())

    async def _get(self, request: web.Request) -> web.Response:
        return revised(await self._desk.loop(request.match_info["model"]))

    async def _put(self, request: web.Request) -> web.Response:
        revision, model = revision_of(request), request.match_info["model"]
        asked = await self._asking.read(request, LoopSettings)
        if asked.model != model:
            raise Malformed(f"model: the path says {model}, the body {asked.model}; say the same")
        return revised(await self._desk.put(asked, revision))

    async def _remove(self, request: web.Request) -> web.Response:
        await self._desk.remove(request.match_info["model"], revision_of(request))
        return done()

    async def _cycles(self, request: web.Request) -> web.Response:
        after, model = request[QUERY].get("after"), request.match_info["model"]
        if after is not None:
            PATHS.check("cycle", after)
        limit = min(number_of(request, "limit", 100), self._limits.page_max)
        found = await self._desk.cycles(model, after, limit)
        return await listing("cycles", found)

    async def _begin(self, request: web.Request) -> web.Response:
        asked = await self._asking.read(request, schemas.CommentRequest)
        model = request.match_info["model"]
        begun = await self._desk.begin(model, actor_of(request), asked.comment)
        return revised(begun, HTTPStatus.CREATED)

    async def _cycle(self, request: web.Request) -> web.Response:
        name = request.match_info["cycle"]
        wait_s = wait_s_of(request, self._limits.wait_s_max)
        if "revision" not in request[QUERY] or not wait_s:
            return revised(await self._desk.cycle(name))
        seen = number_of(request, "revision", 0)
        with self._waits.one(caller_of(request)):
            return revised(await self._desk.watch(name, seen, wait_s, self._ending))

    async def _log(self, request: web.Request) -> web.Response:
        lines = await self._desk.lines(request.match_info["cycle"])
        return document(
            schemas.CycleLog(
                lines=tuple(schemas.CycleLine(at=one.at, words=one.words) for one in lines)
            )
        )

    async def _decide(self, request: web.Request) -> web.Response:
        revision = revision_of(request)
        asked = await self._asking.read(request, Decision)
        name = request.match_info["cycle"]
        return revised(await self._desk.decide(name, asked, actor_of(request), revision))

    async def _refit(self, request: web.Request) -> web.Response:
        model = request.match_info["model"]
        return document(
            await to_its_end(
                self._refits, caller_of(request), lambda: self._refitting.fitted(model)
            )
        )

    async def _apply_refit(self, request: web.Request) -> web.Response:
        asked = await self._asking.read(request, schemas.CommentRequest)
        model = request.match_info["model"]
        actor = actor_of(request)
        return document(
            await to_its_end(
                self._applied,
                caller_of(request),
                lambda: self._refitting.apply(model, actor, asked.comment),
            )
        )
