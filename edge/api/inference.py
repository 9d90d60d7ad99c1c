"""The Open Inference Protocol v2: health, metadata, inference."""

import asyncio
import functools
import os
import time

from aiohttp import web

from edge.answers import Answer, Answering, Sample
from edge.api import bodies, predictions
from edge.api.settings import Limits
from edge.api.status import Inspectable
from shared import __version__
from shared.errors import DeadlineMissed, Unavailable, Unknown
from shared.new_ids import new_sample_id
from shared.oip.body import HEADER_LENGTH
from shared.oip.request import InferRequest, decode_request
from shared.oip.response import encode_response
from shared.oip.signature import inputs_for, model_metadata, server_metadata
from shared.trace import NOISE_BYTES, TRACEPARENT, identify, parse_traceparent

MODEL = "/v2/models/{model}"
VERSION = MODEL + "/versions/{version}"
INLINE_BYTES_MAX = 8 * 1024  # parsing this much JSON takes half a ms; more leaves the event loop


class InferenceRoutes:
    """Each row of a request becomes a sample; the response says who answered it."""

    def __init__(self, answering: Answering, inspectable: Inspectable, limits: Limits) -> None:
        self._answering, self._inspectable, self._limits = answering, inspectable, limits

    def add_to(self, router: web.UrlDispatcher) -> None:
        router.add_get("/v2", self._server)
        router.add_get("/v2/health/live", self._live)
        router.add_get("/v2/health/ready", self._ready)
        expect = functools.partial(bodies.expect_continue, limits=self._limits)
        for path in (MODEL, VERSION):
            router.add_get(path, self._model)
            router.add_get(path + "/ready", self._model_ready)
            router.add_post(path + "/infer", self._infer, expect_handler=expect)

    async def _server(self, _: web.Request) -> web.Response:
        return web.json_response(server_metadata("hybridge-edge", __version__))

    async def _live(self, _: web.Request) -> web.Response:
        return web.json_response({"live": True})

    async def _ready(self, _: web.Request) -> web.Response:
        self._require_ready()
        return web.json_response({"ready": True})

    async def _model(self, request: web.Request) -> web.Response:
        self._require_model(request)
        return web.json_response(
            model_metadata(
                predictions.signature(self._answering.manifest, self._inspectable.engine)
            )
        )

    async def _model_ready(self, request: web.Request) -> web.Response:
        self._require_model(request)
        self._require_ready()
        return web.json_response({"name": self._answering.manifest.name, "ready": True})

    async def _infer(self, request: web.Request) -> web.Response:
        bodies.refuse_declared(request, self._limits)
        self._require_model(request)
        self._require_ready()
        body = await bodies.read(request, self._limits)
        asked = await _decoded(body, request.headers.get(HEADER_LENGTH))
        wanted = asked.wanted([spec.name for spec in predictions.OUTPUTS])
        wait = predictions.wait_of(asked.parameters, self._limits.wait_ms_max)
        samples = self._samples(asked, _trace_of(request))
        answers = await _settled(samples, self._answering)
        version = predictions.version_of(self._answering.manifest, answers)
        if wait.within_s:
            answers = await self._finals(answers, wait.within_s)
        response = predictions.response(self._answering.manifest, version, answers, asked.id)
        encoded = encode_response(response, wanted)
        return web.Response(body=encoded.body, headers=encoded.headers)

    def _samples(self, asked: InferRequest, traceparent: str) -> list[Sample]:
        """One for each row, with views into the request's body."""
        signature = predictions.signature(self._answering.manifest, self._inspectable.engine)
        rows = inputs_for(signature, asked, self._limits.rows_max)[0].array
        return [
            Sample(
                id=new_sample_id(),
                tensor=row,
                captured_at=time.time(),
                arrived=time.monotonic(),
                origin="api",
                position=asked.id and f"{asked.id}[{index}]",
                traceparent=traceparent,
            )
            for index, row in enumerate(rows)
        ]

    async def _finals(self, answers: list[Answer], within_s: float) -> list[Answer]:
        """Final answers where they come in time; what there is already where they do not."""

        async def final(answer: Answer) -> Answer:
            if answer.final:
                return answer
            try:
                return await self._answering.final(answer.id, within_s)
            except DeadlineMissed:
                return self._answering.find(answer.id) or answer

        return list(await asyncio.gather(*map(final, answers)))

    def _require_model(self, request: web.Request) -> None:
        manifest = self._answering.manifest
        name, version = request.match_info["model"], request.match_info.get("version")
        if name != manifest.name:
            raise Unknown(f"model {name[:80]!r} is not here; this device runs {manifest.name!r}")
        if version is not None and version != manifest.version:
            raise Unknown(
                f"{name} version {version[:40]!r} is not here; "
                f"this device runs {manifest.version}: ask for that, or for no version"
            )

    def _require_ready(self) -> None:
        if not self._answering.ready:
            raise Unavailable("the model is not loaded yet, or the agent is shutting down")


def _trace_of(request: web.Request) -> str:
    """The request's `traceparent`, whose trace the cloud's answer joins; "" where there is none."""
    sent = request.headers.getall(TRACEPARENT, [])
    if len(sent) != 1 or parse_traceparent(sent[0]) is None:
        return ""
    return identify(None, sent[0], os.urandom(NOISE_BYTES)).traceparent


async def _decoded(body: bytes, header_length: str | None) -> InferRequest:
    if len(body) <= INLINE_BYTES_MAX:
        return decode_request(body, header_length)
    return await asyncio.to_thread(decode_request, body, header_length)


async def _settled(samples: list[Sample], answering: Answering) -> list[Answer]:
    """All answers; when one fails, its error, once none of the others is still under way."""
    results = await asyncio.gather(*map(answering.answer, samples), return_exceptions=True)
    answers = list[Answer]()
    for result in results:
        if isinstance(result, BaseException):
            raise result
        answers.append(result)
    return answers
