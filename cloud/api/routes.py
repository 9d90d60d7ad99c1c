"""What a route is: where it is, who may ask, what it takes and gives. The API is a table of these,
from which the router, the gateway and `/openapi.json` are made.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Protocol

from aiohttp import web
from pydantic import BaseModel

from cloud.gateway.roles import Role

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Answer = type[BaseModel] | str
"""A document, or the media type of something else, or "" for no body."""


@dataclass(frozen=True, slots=True)
class Query:
    """A parameter of the query that may be left out; a number where it has bounds."""

    name: str
    minimum: int | None = None
    maximum: int | None = None


@dataclass(frozen=True, slots=True)
class Route:
    """`path` as aiohttp has it: `/v2/models/{model}`."""

    method: str
    path: str
    handler: Handler
    summary: str
    role: Role | None  # None: whoever comes
    answers: Mapping[HTTPStatus, Answer]
    takes: type[BaseModel] | None = None
    many: bool = False  # the answer is an array of the document
    binary: bool = False  # tensors may travel as binary data, both ways
    problems: Sequence[HTTPStatus] = ()  # of its own, beside those of every route
    queries: Sequence[Query] = ()
    head: bool = True  # a GET that may be asked for its head alone: it changes nothing
    patterns: Mapping[str, str] = field(default_factory=dict)  # of names in the path, ECMA 262

    @property
    def operation_id(self) -> str:
        words = [word.strip("{}") for word in self.path.split("/") if word]
        return "_".join([self.method.lower(), *words]).replace(".", "_")


def document(
    model: BaseModel, status: HTTPStatus = HTTPStatus.OK, *, sparse: bool = False
) -> web.Response:
    """`sparse`: members that are None are left out."""
    return web.Response(
        body=model.model_dump_json(exclude_none=sparse).encode(), status=status,
        content_type="application/json",
    )  # fmt: skip


async def listing(name: str, items: Iterable[BaseModel]) -> web.Response:
    """As `document` of a model whose one member is this list. A list of long documents takes a second to
    write, which one call would take from everybody else: here each is written by itself, in a thread.
    """

    def body() -> bytes:
        written = b",".join(item.model_dump_json().encode() for item in items)
        return b'{"%b":[%b]}' % (name.encode(), written)

    return web.Response(body=await asyncio.to_thread(body), content_type="application/json")


class Revised(Protocol):
    """A pydantic model that knows how often it was changed."""

    @property
    def revision(self) -> int: ...

    def model_dump_json(self) -> str: ...


def revised(found: Revised, status: HTTPStatus = HTTPStatus.OK) -> web.Response:
    """A document with its revision as the ETag: what `If-Match` takes."""
    return web.Response(
        body=found.model_dump_json().encode(), status=status, content_type="application/json",
        headers={"ETag": f'"{found.revision}"'},
    )  # fmt: skip


def done() -> web.Response:
    return web.Response(status=HTTPStatus.NO_CONTENT)


def versioned(path: str) -> tuple[str, str]:
    """A model's path, and that of one of its versions."""
    model = "/v2/models/{model}"
    return model + path, model + "/versions/{version}" + path
