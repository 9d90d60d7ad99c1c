"""Errors as problem details (RFC 9457): the one place where an error meets a status code.

The member `error` repeats the detail: that is where clients of the Open Inference Protocol look.
"""

import asyncio
import json
import logging
import time
from http import HTTPStatus

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from edge.telemetry.counters import Counters
from shared.errors import (
    Conflict,
    DeadlineMissed,
    Disconnected,
    Forbidden,
    HybridgeError,
    InUse,
    Malformed,
    NotTrusted,
    Overloaded,
    ReadOnly,
    Refused,
    TooLarge,
    Unavailable,
    Unknown,
)
from shared.logs import OncePer

_LOG_PERIOD_S = 60.0

log = logging.getLogger(__name__)

TABLE: dict[type[HybridgeError], tuple[HTTPStatus, str]] = {
    Malformed: (HTTPStatus.BAD_REQUEST, "malformed"),
    TooLarge: (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large"),
    Unknown: (HTTPStatus.NOT_FOUND, "unknown"),
    NotTrusted: (HTTPStatus.FORBIDDEN, "not-trusted"),
    Forbidden: (HTTPStatus.FORBIDDEN, "forbidden"),
    InUse: (HTTPStatus.CONFLICT, "in-use"),
    Conflict: (HTTPStatus.CONFLICT, "conflict"),
    ReadOnly: (HTTPStatus.MISDIRECTED_REQUEST, "read-only"),
    Refused: (HTTPStatus.BAD_REQUEST, "refused"),
    Overloaded: (HTTPStatus.SERVICE_UNAVAILABLE, "overloaded"),
    DeadlineMissed: (HTTPStatus.GATEWAY_TIMEOUT, "deadline-missed"),
    Disconnected: (HTTPStatus.SERVICE_UNAVAILABLE, "disconnected"),
    Unavailable: (HTTPStatus.SERVICE_UNAVAILABLE, "unavailable"),
}
RETRY_AFTER_S = "1"  # whole seconds are the header's unit, and a device is back within one


class SlowBody(Refused):
    """A body that did not arrive within its time; only HTTP has these."""


def problem(status: HTTPStatus, kind: str, detail: str) -> web.Response:
    """One problem document. After 408 and 413 the connection closes: its body was not read."""
    document = {
        "type": f"urn:hybridge:problem:{kind}",
        "title": status.phrase,
        "status": status.value,
        "detail": detail,
        "error": detail,
    }
    response = web.Response(
        body=json.dumps(document).encode(),
        status=status,
        content_type="application/problem+json",
    )
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        response.headers["Retry-After"] = RETRY_AFTER_S
    if status in {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.REQUEST_ENTITY_TOO_LARGE}:
        response.force_close()
    return response


def of_error(error: HybridgeError) -> web.Response:
    """The problem for an error of the tree: its own row, or its nearest ancestor's."""
    if isinstance(error, SlowBody):
        return problem(HTTPStatus.REQUEST_TIMEOUT, "slow-body", str(error))
    for kind in type(error).__mro__:
        if kind in TABLE:
            status, name = TABLE[kind]
            return problem(status, name, str(error))
    return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "error", "an error without a place here")


def reporting(counters: Counters) -> Middleware:
    """Middleware: every answer is counted, every error leaves as a problem document and, once in
    a while for each kind, in the log.
    """
    once = OncePer(_LOG_PERIOD_S)

    def refused(request: web.Request, response: web.Response, why: str) -> web.Response:
        held_back = once.admits(str(response.status), time.monotonic())
        if held_back is not None:
            log.warning(
                "request_refused",
                extra={
                    "status": response.status,
                    "path": request.path[:200],
                    "why": why[:300],
                    "more_since_last": held_back,
                },
            )
        return response

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            response = await handler(request)
        except HybridgeError as error:
            response = refused(request, of_error(error), str(error))
        except web.HTTPException as error:
            response = refused(request, _of_http(error), request.method)
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception:  # a bug: its chain goes to the log, not to the caller
            log.exception("request_failed", extra={"path": request.path})
            response = problem(
                HTTPStatus.INTERNAL_SERVER_ERROR, "bug", "this is our fault; the log says more"
            )
        counters.add(f"http_{response.status}")
        return response

    return middleware


@web.middleware
async def for_programs(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Middleware: a web page's request is refused; programs send no Origin (RFC 6454).

    Otherwise any page that a browser on the device shows could send samples.
    """
    if "Origin" in request.headers:
        raise NotTrusted("a web page asks (it sent an Origin); the local API is for programs")
    return await handler(request)


def _of_http(error: web.HTTPException) -> web.Response:
    """What aiohttp refuses by itself: no such path, no such method."""
    status = HTTPStatus(error.status)
    response = problem(status, status.phrase.lower().replace(" ", "-"), error.text or status.phrase)
    if "Allow" in error.headers:
        response.headers["Allow"] = error.headers["Allow"]
    return response
