"""Routes: what evaluations found."""

from collections.abc import Iterator
from http import HTTPStatus

from aiohttp import web

from cloud.api.routes import Route, document
from cloud.gateway.roles import Role
from cloud.registry.api import schemas
from cloud.registry.documents import Evaluation
from cloud.registry.registry import Registry
from shared.errors import Unknown

REPORT_BYTES_MAX = 16 * 1024 * 1024
_OK, _MISSING = HTTPStatus.OK, HTTPStatus.NOT_FOUND
# a report shows texts that trainers wrote: whatever they are, a browser runs none of it
_HARMLESS = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; sandbox"
)


class EvaluationRoutes:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def routes(self) -> Iterator[Route]:
        yield Route(
            "GET", "/v1/models/{model}/versions/{version}/evaluations", self._list,
            "A version's evaluations", Role.VIEWER, {_OK: schemas.Evaluations},
            problems=(_MISSING,),
        )  # fmt: skip
        yield Route(
            "GET", "/v1/evaluations/{id}", self._get, "An evaluation: figures, rules, hardware",
            Role.VIEWER, {_OK: Evaluation}, problems=(_MISSING,),
        )  # fmt: skip
        yield Route(
            "GET", "/v1/evaluations/{id}/report.json", self._report_json, "Its report, for programs",
            Role.VIEWER, {_OK: "application/json"}, problems=(_MISSING,),
        )  # fmt: skip
        yield Route(
            "GET", "/v1/evaluations/{id}/report.html", self._report_html,
            "Its report with plots, for people", Role.VIEWER, {_OK: "text/html"},
            problems=(_MISSING,),
        )  # fmt: skip

    async def _list(self, request: web.Request) -> web.Response:
        found = await self._registry.read(
            self._registry.catalog.evaluations,
            request.match_info["model"], request.match_info["version"],
        )  # fmt: skip
        return document(schemas.Evaluations(evaluations=tuple(found)))

    async def _get(self, request: web.Request) -> web.Response:
        return document(await self._evaluation(request))

    async def _report_json(self, request: web.Request) -> web.Response:
        evaluation = await self._evaluation(request)
        return await self._report(evaluation, evaluation.report_json, "application/json")

    async def _report_html(self, request: web.Request) -> web.Response:
        evaluation = await self._evaluation(request)
        return await self._report(evaluation, evaluation.report_html, "text/html; charset=utf-8")

    async def _report(
        self, evaluation: Evaluation, sha256: str | None, media_type: str
    ) -> web.Response:
        if sha256 is None:
            raise Unknown(f"evaluation {evaluation.id} is {evaluation.state}; it has no report")
        content = await self._registry.artifacts.read(sha256, REPORT_BYTES_MAX)
        return web.Response(
            body=content,
            headers={
                "Content-Type": media_type, "ETag": f'"{sha256}"',
                "Content-Security-Policy": _HARMLESS, "X-Content-Type-Options": "nosniff",
            },
        )  # fmt: skip

    async def _evaluation(self, request: web.Request) -> Evaluation:
        catalog = self._registry.catalog
        return await self._registry.read(catalog.evaluation, request.match_info["id"])
