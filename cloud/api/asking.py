"""Who asks, and what his request says: the same few steps at the head of each handler."""

import asyncio
import re
from dataclasses import replace
from typing import TypeVar

from aiohttp import web
from pydantic import BaseModel, ValidationError

from cloud.api import bodies
from cloud.api.checked import PathRules, check_query, revision, seconds
from cloud.api.middleware import CALLER
from cloud.api.problems import Unverified
from cloud.api.room import Room
from cloud.api.routes import Route
from cloud.api.settings import DocumentApi
from shared.config import in_words
from shared.errors import Malformed, NotTrusted
from shared.oip.documents import parse

Body = TypeVar("Body", bound=BaseModel)
QUERY = web.RequestKey("query", dict[str, str])
_ANONYMOUS = "anonymous"
_ON_LOOP_BYTES_MAX = 32 * 1024
"""Of a document that is read between two others' turns: a millisecond or two. A megabyte that is
wrong in every second byte takes a second."""


def checking(route: Route, paths: PathRules) -> Route:
    """The route, whose handler sees only paths and queries as its table says."""
    inner = route.handler

    async def handler(request: web.Request) -> web.StreamResponse:
        paths.check_path(request.match_info)
        request[QUERY] = check_query(request.query.items(), route.queries)
        try:
            return await inner(request)
        except NotTrusted as error:  # of what was sent or kept: who asks was checked before
            if route.role is None:
                raise
            raise Unverified(str(error)) from error

    names = re.findall(r"\{(\w+)\}", route.path)
    return replace(route, handler=handler, patterns={name: paths.pattern(name) for name in names})


def actor_of(request: web.Request) -> str:
    """The caller's name, as the log keeps it."""
    caller = request.get(CALLER)
    return _ANONYMOUS if caller is None else caller.name


def revision_of(request: web.Request) -> int | None:
    """Of `If-Match`; None where it is not said. Raises `Malformed`."""
    sent = request.headers.getall("If-Match", [])
    if len(sent) > 1:
        raise Malformed("If-Match stands twice in one request; send it once")
    return revision(sent[0] if sent else None)


def number_of(request: web.Request, name: str, default: int) -> int:
    """Of the query, which has been checked."""
    return int(request[QUERY].get(name, default))


def wait_s_of(request: web.Request, s_max: float) -> float:
    """How long the caller would wait for a change, at most `s_max`. Raises `Malformed`."""
    return min(seconds("wait_s", request[QUERY].get("wait_s", "0")), s_max)


class Asking:
    """Reads bodies that are documents, within the bounds of all of them."""

    def __init__(self, limits: DocumentApi, room: Room) -> None:
        self._limits, self._room = limits, room

    async def content(self, request: web.Request) -> bytes:
        """Raises as `bodies.read`."""
        with self._room.share() as share:
            return await bodies.read(
                request, self._limits.json_bytes_max, self._limits.body_s_max, share
            )

    async def read(self, request: web.Request, kind: type[Body]) -> Body:
        """Raises `Malformed` for what is no such document, and as `bodies.read`; no body is an
        empty one.
        """
        content = await self.content(request)
        if len(content) > _ON_LOOP_BYTES_MAX:
            return await asyncio.to_thread(_read, content, kind)
        return _read(content, kind)


def _read(content: bytes, kind: type[Body]) -> Body:
    if content:
        parse(content, "the body")  # strict JSON: no repeated members, no NaN, no endless depth
    try:
        return kind.model_validate_json(content or b"{}", strict=True)
    except ValidationError as error:
        raise Malformed(f"{kind.__name__}: {in_words(error)[:1000]}") from error
