"""Routes: jobs with their runs, logs and files; workers; quotas."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from http import HTTPStatus
from typing import Final, TypeVar

from aiohttp import web

from cloud.api.asking import QUERY, Asking, actor_of, number_of, wait_s_of
from cloud.api.checked import PathRules, shown
from cloud.api.middleware import caller_of
from cloud.api.routes import Query, Route, document, done
from cloud.api.turns import Turns
from cloud.gateway.roles import Role
from cloud.registry.artifacts.blobs import Blobs
from cloud.training.api import schemas
from cloud.training.api.limits import PLACEHOLDERS, TrainingLimits
from cloud.training.api.streaming import sent
from cloud.training.documents import Job, JobSpec, JobState, Quota, Run
from cloud.training.queue.queue import JobQueue
from cloud.training.tracking.tracking import Tracking
from shared.errors import Malformed

T = TypeVar("T")
_OK, _MISSING, _CONFLICT = HTTPStatus.OK, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT
_FULL: Final = HTTPStatus.TOO_MANY_REQUESTS
_PATH: Final = "/v1/jobs/{job}"
_KEY: Final = re.compile(r"[!-~]{1,200}")
_PATHS: Final = PathRules(PLACEHOLDERS)
_BIG: Final = 2**53


class TrainingRoutes:
    def __init__(
        self,
        queue: JobQueue,
        tracking: Tracking,
        blobs: Blobs,
        asking: Asking,
        ending: asyncio.Event,
        limits: TrainingLimits = TrainingLimits(),  # noqa: B008  frozen
    ) -> None:
        """`ending` is set when this process takes nothing new."""
        self._queue, self._tracking, self._blobs = queue, tracking, blobs
        self._asking, self._ending, self._limits = asking, ending, limits
        self._waits = Turns("questions that wait for a job", limits.waits_max)
        self._downloads = Turns("downloads", limits.downloads_max)

    def routes(self) -> Iterator[Route]:
        limit = Query("limit", minimum=1, maximum=10_000)
        after = Query("after", minimum=0, maximum=_BIG)
        yield Route(
            "POST", "/v1/jobs", self._submit,
            "Hand in a job; with the same Idempotency-Key again it is the same job", Role.TRAINER,
            {HTTPStatus.CREATED: Job}, takes=JobSpec, problems=(_CONFLICT, _FULL),
        )  # fmt: skip
        yield Route(
            "GET", "/v1/jobs", self._list, "Jobs, the newest first", Role.VIEWER,
            {_OK: schemas.Jobs}, problems=(_MISSING,),
            queries=(Query("state"), Query("team"), Query("after"), limit),
        )  # fmt: skip
        yield Route(
            "GET", _PATH, self._get, "A job: where it stands, and why", Role.VIEWER, {_OK: Job},
            problems=(_MISSING,),
        )  # fmt: skip
        yield Route(
            "POST", _PATH + "/cancel", self._cancel,
            "End it: at once where it waits, else after a checkpoint", Role.TRAINER, {_OK: Job},
            takes=schemas.CommentRequest, problems=(_MISSING, _CONFLICT),
        )  # fmt: skip
        yield Route(
            "POST", _PATH + "/priority", self._priority, "Move it in the queue", Role.OPERATOR,
            {_OK: Job}, takes=schemas.PriorityRequest, problems=(_MISSING, _CONFLICT),
        )  # fmt: skip
        yield Route(
            "GET", _PATH + "/logs", self._logs,
            "Lines after the one of that number; waits up to `wait_s` for the first", Role.VIEWER,
            {_OK: schemas.LogLines}, problems=(_MISSING, _FULL),
            queries=(after, limit, Query("wait_s")),
        )  # fmt: skip
        yield Route(
            "GET", _PATH + "/run", self._run, "What it was told, measured and left behind",
            Role.VIEWER, {_OK: Run}, problems=(_MISSING,),
        )  # fmt: skip
        yield Route(
            "GET", _PATH + "/points", self._points,
            "A metric step by step, or all of them; waits up to `wait_s` for the first",
            Role.VIEWER, {_OK: schemas.Points}, problems=(_MISSING, _FULL),
            queries=(Query("metric"), after, limit, Query("wait_s")),
        )  # fmt: skip
        yield Route(
            "GET", _PATH + "/artifacts/{artifact}", self._artifact, "A file that its run left",
            Role.TRAINER, {_OK: "application/octet-stream", HTTPStatus.NOT_MODIFIED: ""},
            problems=(_MISSING, _FULL),
        )  # fmt: skip
        yield Route(
            "GET", "/v1/workers", self._workers, "Who runs jobs, and what keeps them apart",
            Role.VIEWER, {_OK: schemas.Workers},
        )  # fmt: skip
        yield Route(
            "GET", "/v1/quotas", self._quotas, "What teams may have, by name", Role.VIEWER,
            {_OK: schemas.Quotas},
        )  # fmt: skip
        yield Route(
            "PUT", "/v1/quotas/{team}", self._set_quota, "Set what a team may have", Role.OPERATOR,
            {_OK: Quota}, takes=Quota, problems=(_FULL,),
        )  # fmt: skip
        yield Route(
            "DELETE", "/v1/quotas/{team}", self._remove_quota, "Put a team under the default again",
            Role.OPERATOR, {HTTPStatus.NO_CONTENT: ""}, problems=(_MISSING,),
        )  # fmt: skip

    async def _submit(self, request: web.Request) -> web.Response:
        keys = request.headers.getall("Idempotency-Key", [])
        if len(keys) > 1 or any(not _KEY.fullmatch(key) for key in keys):
            raise Malformed("Idempotency-Key: send one, of 1 to 200 visible ASCII characters")
        spec = await self._asking.read(request, JobSpec)
        job = await self._queue.submit(spec, actor_of(request), keys[0] if keys else None)
        return document(job, HTTPStatus.CREATED)

    async def _list(self, request: web.Request) -> web.Response:
        query = request[QUERY]
        state, team, after = query.get("state"), query.get("team"), query.get("after")
        known = [one.value for one in JobState]
        if state is not None and state not in known:
            raise Malformed(f"query: state is {shown(state)}; want one of {', '.join(known)}")
        if team is not None:
            _PATHS.check("team", team)
        if after is not None:
            _PATHS.check("job", after)
        page = await self._queue.jobs(
            None if state is None else JobState(state), team, after, self._limit(request, 100)
        )
        return document(schemas.Jobs(jobs=page.jobs, next=page.next))

    async def _get(self, request: web.Request) -> web.Response:
        return document(await self._queue.job(request.match_info["job"]))

    async def _cancel(self, request: web.Request) -> web.Response:
        asked = await self._asking.read(request, schemas.CommentRequest)
        name = request.match_info["job"]
        return document(await self._queue.cancel(name, asked.comment, actor_of(request)))

    async def _priority(self, request: web.Request) -> web.Response:
        asked = await self._asking.read(request, schemas.PriorityRequest)
        return document(await self._queue.set_priority(request.match_info["job"], asked.priority))

    async def _logs(self, request: web.Request) -> web.Response:
        job, after = request.match_info["job"], number_of(request, "after", 0)
        limit = self._limit(request, 1000)
        found = await self._first(request, lambda: self._tracking.logs(job, after, limit))
        return document(schemas.LogLines(lines=tuple(found)))

    async def _run(self, request: web.Request) -> web.Response:
        return document(await self._tracking.run(request.match_info["job"]))

    async def _points(self, request: web.Request) -> web.Response:
        job, metric = request.match_info["job"], request[QUERY].get("metric")
        if metric is not None and not re.fullmatch(r"[a-z][a-z0-9_.]{0,63}", metric, re.ASCII):
            raise Malformed(f"query: metric is {shown(metric)}; want a name, as 'loss'")
        after, limit = number_of(request, "after", -1), self._limit(request, 1000)
        found = await self._first(
            request, lambda: self._tracking.points(job, metric, after, limit)
        )  # fmt: skip
        return document(schemas.Points(points=tuple(found)))

    async def _artifact(self, request: web.Request) -> web.StreamResponse:
        job, name = request.match_info["job"], request.match_info["artifact"]
        found = await self._tracking.artifact(job, name)
        with self._downloads.one(caller_of(request)):
            return await sent(request, self._blobs, found)

    async def _workers(self, _: web.Request) -> web.Response:
        return document(schemas.Workers(workers=await self._queue.workers()))

    async def _quotas(self, _: web.Request) -> web.Response:
        return document(schemas.Quotas(quotas=tuple(await self._queue.quotas())))

    async def _set_quota(self, request: web.Request) -> web.Response:
        asked, team = await self._asking.read(request, Quota), request.match_info["team"]
        if asked.team != team:
            raise Malformed(f"team: the path says {team}, the body {asked.team}; say the same")
        return document(await self._queue.set_quota(asked))

    async def _remove_quota(self, request: web.Request) -> web.Response:
        await self._queue.remove_quota(request.match_info["team"])
        return done()

    def _limit(self, request: web.Request, default: int) -> int:
        return min(number_of(request, "limit", default), self._limits.page_max)

    async def _first(self, request: web.Request, look: Callable[[], Awaitable[list[T]]]) -> list[T]:
        """What there is, as soon as there is something, or the wait is over, or the job."""
        wait_s = wait_s_of(request, self._limits.wait_s_max)
        found = await look()
        if found or not wait_s:
            return found
        loop = asyncio.get_running_loop()
        ends = loop.time() + wait_s
        with self._waits.one(caller_of(request)):
            while not found and loop.time() < ends and not self._ending.is_set():
                job = await self._queue.job(request.match_info["job"])
                await self._pause(min(self._limits.look_s, ends - loop.time()))
                found = await look()
                if job.ended_at is not None:  # what it said last was written before
                    break
        return found

    async def _pause(self, pause_s: float) -> None:
        try:
            async with asyncio.timeout(pause_s):
                await self._ending.wait()
        except TimeoutError:
            pass
