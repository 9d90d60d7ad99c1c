"""Routes: which registry this is, its log, its replicas, and who runs what."""

import asyncio
from collections.abc import Iterator
from http import HTTPStatus

from aiohttp import web

from cloud.api.asking import QUERY, Asking, number_of, wait_s_of
from cloud.api.middleware import caller_of
from cloud.api.routes import Query, Route, document, done
from cloud.api.turns import Turns
from cloud.gateway.roles import Role
from cloud.registry.api import schemas
from cloud.registry.api.checked import check_model
from cloud.registry.api.settings import RegistryApi
from cloud.registry.documents import ReplicaState, Runner
from cloud.registry.registry import Registry
from cloud.registry.replication.log_answer import LogAnswer
from shared.errors import Malformed, ReadOnly, Unavailable, Unknown

_OK, _GONE = HTTPStatus.OK, HTTPStatus.NO_CONTENT
_SEQ_MAX = 2**53


class RegionRoutes:
    def __init__(
        self, registry: Registry, asking: Asking, limits: RegistryApi, ending: asyncio.Event
    ) -> None:
        """`ending` is set when this process takes nothing new."""
        self._registry, self._asking, self._limits = registry, asking, limits
        self._ending = ending
        self._waits = Turns("questions that wait for the log", limits.waits_max)

    def routes(self) -> Iterator[Route]:
        yield Route(
            "GET", "/v1/registry", self._state, "Which registry this is, and how far its log goes",
            Role.VIEWER, {_OK: schemas.RegistryState},
        )  # fmt: skip
        yield Route(
            "GET", "/v1/log", self._log,
            "Entries of the log; waits up to `wait_s` seconds for the first", Role.VIEWER,
            {_OK: LogAnswer}, problems=(HTTPStatus.TOO_MANY_REQUESTS,),
            queries=(
                Query("after", minimum=0, maximum=_SEQ_MAX),
                Query("limit", minimum=1, maximum=1000), Query("wait_s"),
            ),
        )  # fmt: skip
        yield Route(
            "GET", "/v1/runners", self._runners, "Who says that he runs what", Role.VIEWER,
            {_OK: schemas.Runners}, queries=(Query("model"),),
        )  # fmt: skip
        yield Route(
            "PUT", "/v1/runners/{runner}", self._report_runner, "Say what a device or worker runs",
            Role.FETCH, {_GONE: ""}, takes=schemas.RunnerRequest,
            problems=(HTTPStatus.TOO_MANY_REQUESTS,),
        )  # fmt: skip
        yield Route(
            "GET", "/v1/replicas", self._replicas, "What each replica said last", Role.VIEWER,
            {_OK: schemas.Replicas},
        )  # fmt: skip
        yield Route(
            "PUT", "/v1/replicas/{replica}", self._report_replica,
            "Say how far a replica is, and what its devices run", Role.VIEWER, {_GONE: ""},
            takes=ReplicaState, problems=(HTTPStatus.TOO_MANY_REQUESTS,),
        )  # fmt: skip

    async def _state(self, _: web.Request) -> web.Response:
        registry = self._registry
        status, why = registry.replication.status(), None
        try:
            registry.replication.check_writable()
        except ReadOnly as error:
            why = str(error)
        return document(
            schemas.RegistryState(
                name=registry.name, role=status.role, home=status.home,
                head=await registry.read(registry.catalog.head),
                behind=None if status.role == "home" else status.behind,
                writable=why is None, why_read_only=why, region=status,
            )
        )  # fmt: skip

    async def _log(self, request: web.Request) -> web.Response:
        after = number_of(request, "after", 0)
        limit = min(number_of(request, "limit", 100), self._limits.entries_max)
        wait_s = wait_s_of(request, self._limits.wait_s_max)
        try:
            if not wait_s:
                return document(await self._registry.replication.answer(after, limit, 0.0))
            with self._waits.one(caller_of(request)):
                return document(await self._waited(after, limit, wait_s))
        except Unknown as error:  # the log is here, its signature is not
            raise Unavailable(f"nobody can vouch for the log yet: {error}") from error

    async def _waited(self, after: int, limit: int, wait_s: float) -> LogAnswer:
        """Whoever waits when this process ends is told at once that there is nothing new."""
        answer = self._registry.replication.answer
        waiting = asyncio.create_task(answer(after, limit, wait_s))
        ending = asyncio.create_task(self._ending.wait())
        try:
            await asyncio.wait({waiting, ending}, return_when=asyncio.FIRST_COMPLETED)
            return waiting.result() if waiting.done() else await answer(after, limit, 0.0)
        finally:
            waiting.cancel()
            ending.cancel()

    async def _runners(self, request: web.Request) -> web.Response:
        model = check_model(request[QUERY].get("model"))
        found = await self._registry.read(self._registry.catalog.runners, model)
        return document(schemas.Runners(runners=tuple(found)))

    async def _report_runner(self, request: web.Request) -> web.Response:
        asked = await self._asking.read(request, schemas.RunnerRequest)
        runner = Runner(
            name=request.match_info["runner"], seen_at=self._registry.now(),
            **asked.model_dump(),
        )  # fmt: skip
        await self._registry.read(self._registry.catalog.report_runner, runner)
        return done()

    async def _replicas(self, _: web.Request) -> web.Response:
        found = await self._registry.read(self._registry.catalog.replicas)
        return document(schemas.Replicas(replicas=tuple(found)))

    async def _report_replica(self, request: web.Request) -> web.Response:
        said = await self._asking.read(request, ReplicaState)
        if said.name != (name := request.match_info["replica"]):
            raise Malformed(f"the report is of {said.name}, not of {name}; send it to its own path")
        seen = said.model_copy(update={"seen_at": self._registry.now()})
        await self._registry.read(self._registry.catalog.report_replica, seen)
        return done()
