"""Routes that every HTTP API of ours has: whether it answers, what it counted, and what it is."""

import json
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import Final

from aiohttp import web
from pydantic import BaseModel

from cloud.api.openapi import describe
from cloud.api.routes import Handler, Route
from cloud.gateway.roles import Role

_METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_OK: Final = HTTPStatus.OK


def health(handler: Handler, answer: type[BaseModel]) -> Route:
    return Route(
        "GET", "/healthz", handler, "Whether this process answers", None, {_OK: answer}
    )  # fmt: skip


def metrics(text: Callable[[], Awaitable[bytes]], role: Role) -> Route:
    """`text`: Prometheus's."""

    async def handler(_: web.Request) -> web.Response:
        return web.Response(body=await text(), headers={"Content-Type": _METRICS_TYPE})

    return Route("GET", "/metrics", handler, "Prometheus metrics", role, {_OK: "text/plain"})


class Description:
    """`/openapi.json`, which says something once all routes are known."""

    def __init__(self, title: str, about: str) -> None:
        self._title, self._about = title, about
        self._text = b"{}"

    def route(self) -> Route:
        return Route(
            "GET", "/openapi.json", self._answer, "This document", None, {_OK: "application/json"}
        )

    def describe(self, routes: Sequence[Route]) -> None:
        self._text = json.dumps(describe(routes, self._title, self._about), indent=1).encode()

    async def _answer(self, _: web.Request) -> web.Response:
        return web.Response(body=self._text, content_type="application/json")
