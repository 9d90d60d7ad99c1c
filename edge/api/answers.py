"""Answers by sample id: now, the final one, or all of them as server-sent events."""

from http import HTTPStatus

from aiohttp import web

from edge.answers import Answer, Answering
from edge.api import predictions
from edge.api.settings import Limits
from shared.bundle.manifest import Manifest
from shared.errors import DeadlineMissed, Malformed, Unknown
from shared.ids import SampleId, sample_id


class AnswerRoutes:
    def __init__(self, answering: Answering, limits: Limits) -> None:
        self._answering, self._limits = answering, limits

    def add_to(self, router: web.UrlDispatcher) -> None:
        router.add_get("/v1/answers/{id}", self._answer)

    async def _answer(self, request: web.Request) -> web.Response:
        """200: the final answer. 202: a provisional one, the cloud has not answered yet."""
        sample = sample_id(request.match_info["id"])
        answer = self._find(sample)
        if "wait_ms" in request.query and not answer.final:
            wait = predictions.wait_ms(_number(request.query["wait_ms"]), self._limits.wait_ms_max)
            answer = await self._final(sample, wait.within_s)
        status = HTTPStatus.OK if answer.final else HTTPStatus.ACCEPTED
        return web.json_response(document(self._answering.manifest, answer), status=status)

    def _find(self, sample: SampleId) -> Answer:
        answer = self._answering.find(sample)
        if answer is None:
            raise Unknown(f"sample {sample} is not remembered here; check the id")
        return answer

    async def _final(self, sample: SampleId, within_s: float) -> Answer:
        try:
            return await self._answering.final(sample, within_s)
        except DeadlineMissed:
            return self._find(sample)


def document(manifest: Manifest, answer: Answer) -> dict[str, object]:
    """One answer as JSON, for `/v1/answers/{id}` and for the stream."""
    return {
        "sample_id": str(answer.id),
        "label": predictions.label_of(manifest, answer),
        "index": answer.label,
        "confidence": round(answer.confidence, 6),
        "source": answer.source,
        "final": answer.final,
        "route": answer.route,
        "model_version": answer.model_version,
        "edge_index": answer.edge_label,
        "given_up": answer.given_up,
        "latency_ms": round(answer.latency_ms, 3),
        "first_latency_ms": round(answer.first_latency_ms, 3),
        "uplink_bytes": answer.uplink_bytes,
        "origin": answer.origin,
        "position": answer.position,
    }


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise Malformed(f"wait_ms is {text[:40]!r}; send milliseconds >= 0") from error
