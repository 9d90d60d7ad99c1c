"""OpenAPI 3.1 from the table of routes and the pydantic models that they name. Pure."""

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from cloud.api import problems, schemas
from cloud.api.encodings import ENCODINGS
from cloud.api.routes import Answer, Query, Route
from shared import __version__
from shared.oip.body import HEADER_LENGTH
from shared.trace import REQUEST_ID, TRACEPARENT

Json = dict[str, Any]

_BAD, _FOREIGN, _HURRY = HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS
_OF_ALL = (_BAD, _FOREIGN, HTTPStatus.EXPECTATION_FAILED, HTTPStatus.SERVICE_UNAVAILABLE)
_OF_GUARDED = (HTTPStatus.UNAUTHORIZED, _HURRY)
_OF_BODIES = (
    HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE, HTTPStatus.CONFLICT,
)  # fmt: skip
_TEXT = {"type": "string"}
_COUNT = {"type": "string", "pattern": "^[0-9]{1,12}$"}
_SENT: Json = {
    HEADER_LENGTH: _COUNT,
    "Idempotency-Key": {"type": "string", "pattern": "^[!-~]{1,255}$"},
    "Content-Encoding": {"type": "string", "enum": ["identity", *ENCODINGS]},
}
_HEADERS: Json = {
    REQUEST_ID: {
        "description": "Yours where you sent one, else made here; also the `instance` of a problem.",
        "schema": {"type": "string", "pattern": "^[!-~]{1,128}$"}, "required": True,
    },
    TRACEPARENT: {
        "description": "W3C Trace Context: this request's own span.",
        "schema": {"type": "string", "pattern": "^00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]$"},
        "required": True,
    },
    "Retry-After": {
        "description": "Whole seconds.", "schema": {"type": "string", "pattern": "^[0-9]+$"},
    },
    HEADER_LENGTH: {
        "description": "Bytes of JSON before the binary data.",
        "schema": {"type": "string", "pattern": "^[0-9]+$"},
    },
}  # fmt: skip
_SECURITY: Json = {
    "bearer": {
        "type": "http", "scheme": "bearer",
        "description": "An API key, or a JWT signed with Ed25519.",
    },
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}  # fmt: skip


def describe(routes: Sequence[Route], title: str, about: str) -> Json:
    """The whole document. Every route is in it because every route comes from the table."""
    models: set[type[BaseModel]] = {schemas.Problem}
    paths, used = dict[str, Json](), set[HTTPStatus]()
    for route in routes:
        used |= _problems_of(route)
        models |= {
            a for a in (*route.answers.values(), route.takes) if a and not isinstance(a, str)
        }
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    ordered = sorted(models, key=lambda model: model.__name__)
    _, definitions = models_json_schema(
        [(model, "validation") for model in ordered], ref_template="#/components/schemas/{model}"
    )
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": __version__, "description": about},
        "paths": paths,
        "components": {
            "schemas": definitions["$defs"], "headers": _HEADERS, "securitySchemes": _SECURITY,
            "responses": {_name(s): _response({problems.CONTENT_TYPE: {"schema": _ref(schemas.Problem)}}, s) for s in sorted(used)},
        },
    }  # fmt: skip


def _operation(route: Route) -> Json:
    operation: Json = {
        "operationId": route.operation_id,
        "summary": route.summary,
        "parameters": [*_in_path(route), *map(_in_query, route.queries), *_in_headers(route)],
        "responses": {
            **{str(s.value): _response(_content(a, route), s) for s, a in route.answers.items()},
            **{
                str(s.value): {"$ref": f"#/components/responses/{_name(s)}"}
                for s in sorted(_problems_of(route))
            },
        },
        "security": [{}, {"bearer": []}, {"key": []}] if route.role else [{}],
    }
    if route.role:
        operation["description"] = f"Needs the role `{route.role}`."
    if route.takes:
        operation["requestBody"] = {
            "required": route.binary, "content": _content(route.takes, route),
        }  # fmt: skip
    return operation


def _problems_of(route: Route) -> set[HTTPStatus]:
    statuses = {*_OF_ALL, *route.problems}
    statuses |= {*_OF_GUARDED} if route.role else set()
    statuses |= {*_OF_BODIES} if route.takes else set()
    return statuses - set(route.answers)


def _in_path(route: Route) -> list[Json]:
    def schema(name: str) -> Json:
        rule = route.patterns.get(name)
        return {**_TEXT, "minLength": 1} if rule is None else {**_TEXT, "pattern": rule}

    return [
        {"name": name, "in": "path", "required": True, "schema": schema(name)}
        for name in re.findall(r"\{(\w+)\}", route.path)
    ]


def _in_query(query: Query) -> Json:
    bounds = {"minimum": query.minimum, "maximum": query.maximum}
    known = {name: value for name, value in bounds.items() if value is not None}
    schema = {"type": "integer", **known} if known else _TEXT
    return {"name": query.name, "in": "query", "required": False, "schema": schema}


def _in_headers(route: Route) -> list[Json]:
    optional = [REQUEST_ID, TRACEPARENT]
    if route.takes and route.binary:
        optional += [HEADER_LENGTH, "Idempotency-Key", "Content-Encoding"]
    return [
        {"name": n, "in": "header", "required": False, "schema": _SENT.get(n, _TEXT)}
        for n in optional
    ]


def _response(content: Json, status: HTTPStatus) -> Json:
    names = [REQUEST_ID, TRACEPARENT]
    if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        names.append("Retry-After")
    if "application/octet-stream" in content:
        names.append(HEADER_LENGTH)
    headers = {name: {"$ref": f"#/components/headers/{name}"} for name in names}
    return {"description": status.phrase, "headers": headers} | (
        {"content": content} if content else {}
    )


def _content(answer: Answer, route: Route) -> Json:
    if isinstance(answer, str):
        return {answer: {"schema": {} if "json" in answer else _TEXT}} if answer else {}
    schema = _ref(answer)
    if route.many and answer is not route.takes:
        schema = {"type": "array", "items": schema}
    content: Json = {"application/json": {"schema": schema}}
    if route.binary and answer in (schemas.InferRequest, schemas.InferResponse):
        content["application/octet-stream"] = {}
    return content


def _name(status: HTTPStatus) -> str:
    return "".join(word.capitalize() for word in status.name.split("_"))


def _ref(model: type[BaseModel]) -> Json:
    return {"$ref": f"#/components/schemas/{model.__name__}"}
