"""Errors of the operator's HTTP as problem details (RFC 9457), as `cloud.api.problems` words them.

A table of its own: that module counts in the worker's metrics, whose imports (numpy) would cost the
broker's process 20 MB.
"""

import json
import logging
from http import HTTPStatus
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from shared.errors import HybridgeError, Refused, TooLarge, Unavailable, Unknown

log = logging.getLogger(__name__)

STATUS: Final[tuple[tuple[type[HybridgeError], HTTPStatus], ...]] = (
    (TooLarge, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
    (Unknown, HTTPStatus.NOT_FOUND),
    (Refused, HTTPStatus.BAD_REQUEST),
    (Unavailable, HTTPStatus.SERVICE_UNAVAILABLE),
)
"""The first row that fits."""


def problem(status: HTTPStatus, detail: str) -> web.Response:
    """One problem document."""
    document = {
        "type": "about:blank", "title": status.phrase, "status": status.value, "detail": detail,
    }  # fmt: skip
    body = json.dumps(document).encode()
    return web.Response(body=body, status=status, content_type="application/problem+json")


@web.middleware
async def reporting(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Middleware: every error leaves as a problem document."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        answer = problem(HTTPStatus(error.status), error.text or error.reason)
        if allow := error.headers.get("Allow"):
            answer.headers["Allow"] = allow
        return answer
    except HybridgeError as error:
        status = next(status for kind, status in STATUS if isinstance(error, kind))
        return problem(status, str(error))
    except Exception:  # a bug: its chain goes to the log, not to the caller
        log.exception("request_failed", extra={"path": request.path[:200]})
        return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "a fault of the broker; see its log")
