"""The inference route behind aiohttp: the same calls as in the fast lane, and all unusual ones."""

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus

from aiohttp import web

from cloud.api import bodies, schemas
from cloud.api.answer import NUMBERS_INLINE_MAX, write_answer
from cloud.api.call import JSON_INLINE_BYTES_MAX, InferCall, Tier, json_bytes, read_call
from cloud.api.middleware import CALLER, IDENTITY, caller_of
from cloud.api.record import Record
from cloud.api.room import Room, Share
from cloud.api.routes import Route, versioned
from cloud.api.settings import Api
from cloud.experiments.arm import ArmCounts
from cloud.experiments.experiments import UNIT, Experiments
from cloud.gateway.roles import Role
from cloud.jobs.desk import JobDesk
from cloud.jobs.routes import accepted
from cloud.serving.inference import Answer, Inference
from cloud.serving.job import Priority
from cloud.serving.pool import ModelPool
from cloud.serving.served import Served
from shared.errors import Unknown
from shared.oip.body import HEADER_LENGTH, Encoded

IDEMPOTENCY_KEY = "Idempotency-Key"
OK, ACCEPTED = HTTPStatus.OK, HTTPStatus.ACCEPTED


class InferRoutes:
    def __init__(
        self,
        pool: ModelPool,
        inference: Inference,
        jobs: JobDesk | None,
        limits: Api,
        room: Room,
        record: Record,
        experiments: Experiments | None,
    ) -> None:
        """`jobs` is None where there is no asynchronous tier."""
        self._pool, self._inference, self._jobs = pool, inference, jobs
        self._experiments = experiments
        self._limits, self._room, self._record = limits, room, record
        # one: parsing holds the GIL, and several at once would keep the event loop waiting for it
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="read-call")

    def routes(self) -> Iterator[Route]:
        for path in versioned("/infer"):
            yield Route(
                "POST", path, self._infer, "Inference", Role.INFER,
                {OK: schemas.InferResponse, ACCEPTED: schemas.Accepted},
                takes=schemas.InferRequest, binary=True,
                problems=(
                    HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT,
                ),
            )  # fmt: skip

    async def _infer(self, request: web.Request) -> web.Response:
        arrived = time.monotonic()
        bytes_max = self._limits.body_bytes_max
        if (caller := request.get(CALLER)) is not None:
            bytes_max = min(bytes_max, caller.limits.body_bytes_max)
        bodies.refuse_declared(request, bytes_max)
        served, arm = self._find(request)
        try:
            with self._room.share() as share:
                return await self._answered(request, served, arm, arrived, bytes_max, share)
        except Exception as error:
            if arm is not None:
                arm.did_not_answer()
            self._record.failed(
                served, Priority.INTERACTIVE, error, time.monotonic() - arrived,
                *_names(request),
            )  # fmt: skip
            raise

    def _find(self, request: web.Request) -> tuple[Served, ArmCounts | None]:
        """Who answers, and for which arm of an experiment."""
        model, version = request.match_info["model"], request.match_info.get("version")
        if self._experiments and version is None:
            caller = request.get(CALLER)
            unit = request.headers.get(UNIT) or (None if caller is None else caller.identity)
            if (placed := self._experiments.place(model, unit)) is not None:
                return placed.served, placed.arm
        return self._pool.find(model, version), None

    async def _answered(
        self, request: web.Request, served: Served, arm: ArmCounts | None, arrived: float,
        bytes_max: int, share: Share,
    ) -> web.Response:  # fmt: skip
        body = await bodies.read(request, bytes_max, self._limits.body_s_max, share)
        whole = time.monotonic()
        call = await self._read(body, request.headers.get(HEADER_LENGTH), served)
        asked, read = call.asked, time.monotonic()
        caller = request.get(CALLER)
        if (more := len(call.rows) - 1) and caller is not None:
            caller.spend(read, more)  # rates count rows
        if asked.tier is Tier.ASYNCHRONOUS:
            return await self._later(request, served, arm, call, body)
        deadline = arrived + asked.within_s
        answer = await self._inference.answer(served, call.rows, deadline, asked.priority)
        began = time.monotonic()
        encoded = await self._written(call, served, answer)
        response = web.Response(body=encoded.body, headers=encoded.headers)
        response = await bodies.pack(response, request, self._limits)
        ended = time.monotonic()
        if arm is not None:
            arm.answered(answer.outputs, ended - arrived)
        took_s = (whole - arrived, read - whole, ended - began, ended - arrived)
        self._record.answered(served, call.rows, asked.priority, answer, took_s, *_names(request))
        return response

    async def _read(self, body: bytes, header_length: str | None, served: Served) -> InferCall:
        signature, limits = served.signature, self._limits.calls
        if json_bytes(len(body), header_length) <= JSON_INLINE_BYTES_MAX:
            return read_call(body, header_length, signature, limits)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._reader, read_call, body, header_length, signature, limits
        )

    async def _written(self, call: InferCall, served: Served, answer: Answer) -> Encoded:
        asked, manifest, outputs = call.asked, served.manifest, answer.outputs
        if asked.all_binary or outputs.logits.size <= NUMBERS_INLINE_MAX:
            return write_answer(asked, manifest, outputs, served.version, answer.source)
        return await asyncio.to_thread(
            write_answer, asked, manifest, outputs, served.version, answer.source
        )

    async def _later(
        self, request: web.Request, served: Served, arm: ArmCounts | None, call: InferCall,
        body: bytes,
    ) -> web.Response:  # fmt: skip
        """On disk when this returns; the body was read only to refuse it now and not in hours."""
        if self._jobs is None:
            raise Unknown("parameters.tier: 'asynchronous' is not offered here; send fast or full")
        if (caller := request.get(CALLER)) is not None:
            caller.require(Role.JOBS)
        admitted = await self._jobs.accept(
            caller_of(request),
            model=served.name,
            version=request.match_info.get("version") if arm is None else arm.version,
            body=body,
            header_length=request.headers.get(HEADER_LENGTH),
            webhook=call.asked.webhook,
            idempotency_key=request.headers.get(IDEMPOTENCY_KEY),
            request_id=request[IDENTITY].request_id,
            traceparent=request[IDENTITY].traceparent,
            within_s=call.asked.timeout_s,
        )
        return accepted(admitted)


def _names(request: web.Request) -> tuple[str, str, str]:
    """Of the request, its trace, and whoever asks."""
    identity = request[IDENTITY]
    return identity.request_id, identity.trace_id, caller_of(request)
