"""What every request goes through, in this order: its identity, problems, the gateway, its route."""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from cloud.api.bodies import CONNECTIONS
from cloud.api.connections import Connections
from cloud.api.own_names import is_own_name
from cloud.api.problems import Problem, http_problem, problem_of
from cloud.gateway.caller import Caller
from cloud.gateway.gateway import Gateway
from cloud.gateway.roles import Role
from shared.errors import Forbidden, HybridgeError, Malformed
from shared.logs import OncePer
from shared.trace import NOISE_BYTES, REQUEST_ID, TRACEPARENT, Identity, identify

_LOG_PERIOD_S = 60.0

log = logging.getLogger(__name__)

IDENTITY = web.RequestKey("identity", Identity)
CALLER = web.RequestKey("caller", Caller)


def response_of(problem: Problem, request_id: str) -> web.Response:
    response = web.Response(
        body=problem.body(request_id), status=problem.status, headers=problem.headers
    )
    if problem.closes:
        response.force_close()
    return response


def identifying(connections: Connections) -> Middleware:
    """Every response carries the request's id and trace; its connection is not idle meanwhile."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        await asyncio.sleep(0)  # a client's pipelined requests take turns with everybody else's
        headers = request.headers
        sent = headers.getall(TRACEPARENT, [])
        identity = request[IDENTITY] = identify(
            headers.get(REQUEST_ID), sent[0] if len(sent) == 1 else None, os.urandom(NOISE_BYTES)
        )
        request[CONNECTIONS] = connections
        with connections.at_work(request.transport):
            response = await handler(request)
        response.headers.update(identity.headers)
        if connections.closing:
            response.force_close()
        return response

    return middleware


def reporting(count: Callable[[Problem], None]) -> Middleware:
    """Every error leaves as a problem, counted, and once a minute for each kind in the log."""
    once = OncePer(_LOG_PERIOD_S)

    def note(request: web.Request, problem: Problem) -> None:
        held_back = once.admits(f"{problem.status} {problem.kind}", time.monotonic())
        if held_back is not None:
            log.warning(
                "request_refused",
                extra={
                    "status": problem.status.value, "kind": problem.kind,
                    "request_id": request[IDENTITY].request_id, "path": request.path[:200],
                    "why": problem.detail[:300], "more_since_last": held_back,
                },
            )  # fmt: skip

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        request_id, allow = request[IDENTITY].request_id, None
        try:
            return await handler(request)
        except HybridgeError as error:
            problem = problem_of(error)
        except web.HTTPException as error:  # what aiohttp refuses by itself
            allow = error.headers.get("Allow")
            problem = http_problem(HTTPStatus(error.status), _words(error, allow))
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception as error:  # its chain goes to the log, not to the caller
            log.exception("request_failed", extra={"request_id": request_id, "path": request.path})
            problem = problem_of(error)
        note(request, problem)
        count(problem)
        response = response_of(problem.for_callers, request_id)
        if allow:
            response.headers["Allow"] = allow
        return response

    return middleware


def _words(error: web.HTTPException, allow: str | None) -> str:
    if error.status == HTTPStatus.NOT_FOUND:
        return "there is nothing at this path; /openapi.json says what there is"
    if allow:
        return f"this path takes {allow}"
    return error.text or error.reason


def guarding(
    gateway: Gateway | None, role_of: Mapping[web.AbstractRoute, Role | None]
) -> Middleware:
    """Web pages are refused: programs send no Origin (RFC 6454), and any page that a browser inside
    the network shows could ask otherwise; where nobody needs a key, so are foreign names. Then who asks must have the route's role, and be within
    his limits. Without a gateway everybody may do everything.
    """

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        headers = request.headers
        site = headers.get("Sec-Fetch-Site", "none")
        if "Origin" in headers or site not in ("none", "same-origin"):
            raise Forbidden("a web page asks (it sent an Origin); this API is for programs")
        if headers.get("Expect", "100-continue").lower() != "100-continue":
            raise web.HTTPExpectationFailed(text="only 100-continue can be expected here")
        for name in ("Authorization", "X-API-Key"):
            if len(headers.getall(name, ())) > 1:  # a proxy may have looked at the other one
                raise Malformed(f"{name} stands twice in one request; send it once")
        role = role_of.get(request.match_info.route)
        if role is None or gateway is None:
            return await handler(request)
        if gateway.knows_nobody and not is_own_name(host := headers.get("Host", "")):
            raise Forbidden(
                f"asked for as {host[:80]!r}: without keys this answers under this machine's own "
                "names alone (127.0.0.1, localhost), or web pages could read it; use one of them, or "
                "give gateway.key_file"
            )
        now = time.monotonic()
        caller = gateway.admit(
            headers.get("Authorization"), headers.get("X-API-Key"), now, request.remote
        )
        caller.require(role)
        caller.spend(now)
        request[CALLER] = caller
        with caller.working():
            return await handler(request)

    return middleware


def caller_of(request: web.Request) -> str:
    """The identity of whoever asks; everybody is the same one where there is no gateway."""
    caller = request.get(CALLER)
    return "anonymous" if caller is None else caller.identity
