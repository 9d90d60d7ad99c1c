"""Errors as problem details (RFC 9457), from one table."""

import logging
from http import HTTPStatus

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from cloud.monitoring.metrics import Metrics
from shared.errors import (
    DeadlineMissed,
    HybridgeError,
    Overloaded,
    Refused,
    TooLarge,
    Unavailable,
    Unknown,
)

log = logging.getLogger(__name__)

STATUS: tuple[tuple[type[HybridgeError], HTTPStatus], ...] = (
    (TooLarge, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
    (Unknown, HTTPStatus.NOT_FOUND),
    (Refused, HTTPStatus.BAD_REQUEST),
    (Overloaded, HTTPStatus.TOO_MANY_REQUESTS),
    (DeadlineMissed, HTTPStatus.GATEWAY_TIMEOUT),
    (Unavailable, HTTPStatus.SERVICE_UNAVAILABLE),
)
"""The first row that fits."""


def problem(status: HTTPStatus, detail: str) -> web.Response:
    return web.json_response(
        {"type": "about:blank", "title": status.phrase, "status": status, "detail": detail},
        status=status,
        content_type="application/problem+json",
    )


def reporting(metrics: Metrics) -> Middleware:
    """Middleware: every error leaves as a problem document, counted."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except web.HTTPException as error:
            answer = problem(HTTPStatus(error.status), error.text or error.reason)
            if allow := error.headers.get("Allow"):
                answer.headers["Allow"] = allow
        except HybridgeError as error:
            answer = problem(next(s for kind, s in STATUS if isinstance(error, kind)), str(error))
        except Exception:
            log.exception("request_failed", extra={"path": request.path[:200]})
            answer = problem(
                HTTPStatus.INTERNAL_SERVER_ERROR, "a fault of this server; see its log"
            )
        metrics.http_refused.labels(str(answer.status)).inc()
        return answer

    return middleware
