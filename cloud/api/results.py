"""The asynchronous tier's routes in the table of the API; `cloud/jobs/routes.py` answers them."""

from collections.abc import Iterator
from http import HTTPStatus

from aiohttp import web

from cloud.api import schemas
from cloud.api.middleware import caller_of
from cloud.api.routes import Answer, Query, Route
from cloud.gateway.roles import Role
from cloud.jobs.desk import JobDesk
from cloud.jobs.routes import PATH, result_routes

_GONE, _MISSING = HTTPStatus.GONE, HTTPStatus.NOT_FOUND
_ANSWERS: dict[tuple[str, str], tuple[str, dict[HTTPStatus, Answer], tuple[Query, ...]]] = {
    ("GET", PATH): (
        "Your asynchronous calls, the newest first",
        {HTTPStatus.OK: schemas.Results},
        (Query("limit", minimum=1, maximum=200), Query("before")),
    ),
    ("GET", PATH + "/{id}"): (
        "The answer to an asynchronous call, or how it stands",
        {HTTPStatus.OK: schemas.InferResponse, HTTPStatus.ACCEPTED: schemas.Accepted},
        (Query("wait_ms", minimum=0, maximum=999_999_999),),
    ),
    ("DELETE", PATH + "/{id}"): (
        "Cancel an asynchronous call, or delete its answer",
        {HTTPStatus.NO_CONTENT: ""},
        (),
    ),
}


def routes(desk: JobDesk) -> Iterator[Route]:
    for definition in result_routes(desk, caller_of):
        assert isinstance(definition, web.RouteDef)
        summary, answers, queries = _ANSWERS[definition.method, definition.path]
        problems = (_MISSING,) if definition.path == PATH else (
            _MISSING, _GONE, HTTPStatus.INTERNAL_SERVER_ERROR, HTTPStatus.GATEWAY_TIMEOUT,
        )  # fmt: skip
        yield Route(
            definition.method, definition.path, definition.handler, summary, Role.INFER, answers,
            binary=True, problems=(*problems, HTTPStatus.SERVICE_UNAVAILABLE), queries=queries,
            head=False,  # whoever fetches an answer is noted
        )  # fmt: skip
