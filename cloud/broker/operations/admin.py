"""HTTP for the operator: all of it on a Unix socket of the broker's own user, numbers over TCP.

On the socket: GET /status, GET /sessions (`after`, `prefix`, `limit`), POST /sessions/kick,
GET /metrics, GET /healthz. Over TCP: only the last two.

A client id may hold any character, `/` and `..` included, and clients and proxies rewrite such
paths: it travels in the JSON body of `kick` and in the query of `sessions`, never in a path.
"""

from http import HTTPStatus
from typing import Final, Protocol

from aiohttp import web
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from cloud.broker.operations import metrics
from cloud.broker.operations.problems import problem, reporting
from cloud.broker.operations.status import SessionPage, Status
from shared.config import in_words
from shared.errors import Malformed, Unknown

BODY_BYTES_MAX: Final = 512 * 1024
"""A client id is 65,535 bytes at most, and up to six times that in JSON."""

STATUS: Final = TypeAdapter(Status)
"""The body of GET /status."""
SESSION_PAGE: Final = TypeAdapter(SessionPage)
"""The body of GET /sessions."""


class Kick(BaseModel):
    """The body of POST /sessions/kick."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    client_id: str
    forget: bool = False
    """Also end the session: its subscriptions and what waits for it are gone."""


class Operable(Protocol):
    """What the broker offers to its operator; `overview.Overview` is one."""

    async def status(self) -> Status:
        """Count everything."""

    def page(self, *, after: str = "", prefix: str = "", limit: int = 100) -> SessionPage:
        """Give a page of sessions; raises `Malformed` for a limit out of bounds."""

    async def kick(self, client_id: str, *, forget: bool) -> bool:
        """Close a client's connection with 0x98; False if there is no such session."""


def numbers(broker: Operable) -> web.Application:
    """The application for a TCP port: /metrics and /healthz, and nothing to change."""

    async def scrape(_: web.Request) -> web.Response:
        text = metrics.exposition(await broker.status())
        return web.Response(body=text, headers={"Content-Type": metrics.CONTENT_TYPE})

    async def health(_: web.Request) -> web.Response:
        store = (await broker.status()).store
        if store is not None and store.is_failing:
            why = "the store cannot commit: acknowledgements wait; see the log"
            return problem(HTTPStatus.SERVICE_UNAVAILABLE, why)
        return web.json_response({"healthy": True})

    app = web.Application(middlewares=[reporting], client_max_size=BODY_BYTES_MAX)
    app.router.add_get("/metrics", scrape)
    app.router.add_get("/healthz", health)
    return app


def everything(broker: Operable) -> web.Application:
    """The application for the Unix socket."""

    async def status(_: web.Request) -> web.Response:
        return _json(STATUS.dump_json(await broker.status()))

    async def sessions(request: web.Request) -> web.Response:
        asked = request.query
        page = broker.page(
            after=asked.get("after", ""),
            prefix=asked.get("prefix", ""),
            limit=_integer(asked.get("limit", "100")),
        )
        return _json(SESSION_PAGE.dump_json(page))

    async def kick(request: web.Request) -> web.Response:
        try:
            asked = Kick.model_validate_json(await request.read())
        except ValidationError as error:
            raise Malformed(f"body: {in_words(error)}") from error
        if not await broker.kick(asked.client_id, forget=asked.forget):
            raise Unknown(f"no session of client {asked.client_id!r} is here")
        return web.json_response({"kicked": asked.client_id})

    app = numbers(broker)
    app.router.add_get("/status", status)
    app.router.add_get("/sessions", sessions)
    app.router.add_post("/sessions/kick", kick)
    return app


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise Malformed(f"limit is {text[:40]!r}; give a number") from error
