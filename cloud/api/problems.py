"""Errors as problem details (RFC 9457): the one place where an error meets a status code.

Without a transport: both lanes write what this says. The member `error` repeats the detail, because
that is where clients of the Open Inference Protocol look.
"""

import json
import math
import re
from dataclasses import dataclass, replace
from http import HTTPStatus

from cloud.gateway.refusals import RateLimited
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

CONTENT_TYPE = "application/problem+json"
_TYPE = "urn:hybridge:problem:"
_CHALLENGE = 'Bearer realm="hybridge"'


class SlowBody(Refused):
    """A body that did not arrive within its time; only HTTP has these."""


class UnknownEncoding(Refused):
    """A `Content-Encoding` that is not read here."""


class Unverified(NotTrusted):
    """What was sent does not check out: a hash, a signature. Who sent it is known well."""


TABLE: dict[type[HybridgeError], tuple[HTTPStatus, str]] = {
    Malformed: (HTTPStatus.BAD_REQUEST, "malformed"),
    TooLarge: (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large"),
    Unknown: (HTTPStatus.NOT_FOUND, "unknown"),
    NotTrusted: (HTTPStatus.UNAUTHORIZED, "not-trusted"),
    Unverified: (HTTPStatus.UNPROCESSABLE_ENTITY, "unverified"),
    Forbidden: (HTTPStatus.FORBIDDEN, "forbidden"),
    InUse: (HTTPStatus.CONFLICT, "in-use"),
    Conflict: (HTTPStatus.CONFLICT, "conflict"),
    ReadOnly: (HTTPStatus.MISDIRECTED_REQUEST, "read-only"),
    SlowBody: (HTTPStatus.REQUEST_TIMEOUT, "slow-body"),
    UnknownEncoding: (HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "unknown-encoding"),
    Refused: (HTTPStatus.BAD_REQUEST, "refused"),
    Overloaded: (HTTPStatus.TOO_MANY_REQUESTS, "overloaded"),
    # a kind of its own: more workers would not answer it (`cloud/capacity/manifests.py` counts kinds)
    RateLimited: (HTTPStatus.TOO_MANY_REQUESTS, "rate-limited"),
    DeadlineMissed: (HTTPStatus.GATEWAY_TIMEOUT, "deadline-missed"),
    Disconnected: (HTTPStatus.SERVICE_UNAVAILABLE, "disconnected"),
    Unavailable: (HTTPStatus.SERVICE_UNAVAILABLE, "unavailable"),
}
"""An error of another class has the row of its nearest ancestor."""

_BUG = (HTTPStatus.INTERNAL_SERVER_ERROR, "bug")
_INSTANCE = b', "instance": '
_OF_STORES = frozenset({HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS})
_PLACE = re.compile(
    r"(?:(?<![\w.:/])/|\b(?:file|s3a?|gs|az|abfss?)://)(?:[^\s:;,'\"()/]*/)+([^\s:;,'\"()/]+)"
)
"""An absolute path of two parts or more, or a bucket's URL."""
_CLOSING = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.REQUEST_ENTITY_TOO_LARGE})


@dataclass(frozen=True, slots=True)
class Problem:
    """`kind` is the last part of `type`, one of a bounded set of words."""

    status: HTTPStatus
    kind: str
    detail: str
    retry_after_s: float | None = None

    @property
    def closes(self) -> bool:
        """Its request's body was not read to the end, so the connection cannot be used on."""
        return self.status in _CLOSING

    @property
    def headers(self) -> dict[str, str]:
        headers = {"Content-Type": CONTENT_TYPE}
        if self.status is HTTPStatus.UNAUTHORIZED:
            headers["WWW-Authenticate"] = _CHALLENGE
        if self.status is HTTPStatus.UNSUPPORTED_MEDIA_TYPE:
            headers["Accept-Encoding"] = "gzip, deflate, zstd"
        if self.retry_after_s is not None:  # whole seconds are the header's unit (RFC 9110, 10.2.3)
            headers["Retry-After"] = str(max(1, math.ceil(self.retry_after_s)))
        return headers

    @property
    def for_callers(self) -> "Problem":
        """Where a disk or a store is away, its place is for the log alone: of a path the last part."""
        if self.status not in _OF_STORES:
            return self
        return replace(self, detail=_PLACE.sub(r".../\1", self.detail))

    def body(self, request_id: str) -> bytes:
        """The document; `instance` is the request, as the log names it; "" where there is none yet."""
        if not request_id:
            return self.before_instance[: -len(_INSTANCE)] + b"}"
        return b"".join((self.before_instance, json.dumps(request_id).encode(), b"}"))

    @property
    def before_instance(self) -> bytes:
        """The document up to the request's id, for who says the same to many."""
        document: dict[str, str | int | float] = {
            "type": _TYPE + self.kind,
            "title": self.status.phrase,
            "status": self.status.value,
            "detail": self.detail,
            "error": self.detail,
        }
        if self.retry_after_s is not None:
            document["retry_after_s"] = round(self.retry_after_s, 3)
        return json.dumps(document)[:-1].encode() + _INSTANCE


def problem_of(error: Exception) -> Problem:
    """A bug (anything that is no `HybridgeError`) says nothing of itself to the caller."""
    if not isinstance(error, HybridgeError):
        return Problem(*_BUG, "this is our fault; the server's log says more under this request id")
    status, kind = next((TABLE[k] for k in type(error).__mro__ if k in TABLE), _BUG)
    retry_after_s = error.retry_after_s if isinstance(error, Unavailable) else None
    if retry_after_s is None and status is HTTPStatus.TOO_MANY_REQUESTS:
        retry_after_s = 1.0  # a bounded queue is empty again long before
    return Problem(status, kind, str(error), retry_after_s)


def http_problem(status: HTTPStatus, detail: str) -> Problem:
    """What HTTP itself refuses: no such path, no such method, bytes that are no request."""
    return Problem(status, status.phrase.lower().replace(" ", "-"), detail)
