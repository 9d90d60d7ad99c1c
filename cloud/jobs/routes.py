"""The asynchronous tier over HTTP: `/v1/results` and `/v1/results/{id}`. Errors are raised; the
application's middleware makes problems of them.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from http import HTTPStatus

from aiohttp import web

from cloud.jobs.desk import PAGE_MAX, JobDesk
from cloud.jobs.record import LIVE, Admitted, Failure, JobId, JobView, Result, job_id
from shared import errors
from shared.errors import HybridgeError, Malformed

PATH = "/v1/results"
_PAGE = 50
_RETRY_AFTER_S = 1
_NUMBER = re.compile(r"[0-9]{1,9}")


def result_routes(
    desk: JobDesk, caller_of: Callable[[web.Request], str]
) -> list[web.AbstractRouteDef]:
    """`caller_of` gives the identity of whoever asks, or raises `NotTrusted` or `Forbidden`."""

    async def show(request: web.Request) -> web.StreamResponse:
        caller, id_ = caller_of(request), job_id(request.match_info["id"])
        wait_ms = _number(request, "wait_ms", 0)
        result = await desk.result(caller, id_, wait_ms / 1e3)
        if result.view.state not in LIVE:
            desk.fetched(id_)
        return _shown(result)

    async def remove(request: web.Request) -> web.StreamResponse:
        await desk.remove(caller_of(request), job_id(request.match_info["id"]))
        return web.Response(status=HTTPStatus.NO_CONTENT)

    async def index(request: web.Request) -> web.StreamResponse:
        caller = caller_of(request)
        count = _number(request, "limit", _PAGE)
        if not 1 <= count <= PAGE_MAX:
            raise Malformed(f"limit is {count}; send 1 to {PAGE_MAX}")
        before = request.query.get("before")
        views = await desk.page(caller, count, None if before is None else job_id(before))
        last = str(views[-1].id) if len(views) == count else None
        return web.json_response({"results": [described(view) for view in views], "next": last})

    return [
        web.get(PATH, index, allow_head=False),
        web.get(PATH + "/{id}", show, allow_head=False),
        web.delete(PATH + "/{id}", remove),
    ]


def accepted(admitted: Admitted) -> web.Response:
    """What the inference route answers with: 202, and where the result will be."""
    return _pending(admitted.id, "queued" if admitted.fresh else "accepted before")


def described(view: JobView) -> dict[str, object]:
    """A job as JSON; times are RFC 3339."""
    document: dict[str, object] = {
        "id": str(view.id),
        "model": view.model,
        "version": view.version,
        "status": view.state,
        "attempts": view.attempts,
        "created_at": _time(view.created_at),
        "expires_at": _time(view.expires_at),
    }
    if view.ended_at is not None:
        document["ended_at"] = _time(view.ended_at)
    if view.kept_until is not None:
        document["kept_until"] = _time(view.kept_until)
    if view.failure is not None:
        document["error"] = {"reason": view.failure.reason, "detail": view.failure.detail}
    if view.delivery is not None:
        document["webhook"] = view.delivery
    return document


def _shown(result: Result) -> web.Response:
    view = result.view
    match view.state:
        case "queued" | "running":
            return _pending(view.id, view.state)
        case "done":
            assert result.answer is not None
            return web.Response(body=result.answer.body, headers=result.answer.headers)
        case "cancelled":
            raise web.HTTPGone(text=f"job {view.id} was cancelled")
        case "expired":
            detail = view.failure.detail if view.failure else "its time is over"
            raise web.HTTPGone(text=f"job {view.id}: {detail}")
        case "failed":
            assert view.failure is not None
            if view.failure.reason in {"fault", "poison"}:
                raise web.HTTPInternalServerError(text=view.failure.detail)
            raise _raised(view.failure)


def _raised(failure: Failure) -> HybridgeError:
    """As the synchronous route would have answered."""
    kind = getattr(errors, failure.error, None)
    if isinstance(kind, type) and issubclass(kind, HybridgeError) and kind is not HybridgeError:
        return kind(failure.detail)
    return errors.Unavailable(failure.detail)


def _pending(id_: JobId, status: str) -> web.Response:
    where = f"{PATH}/{id_}"
    return web.json_response(
        {"id": str(id_), "status": status, "location": where},
        status=HTTPStatus.ACCEPTED,
        headers={"Location": where, "Retry-After": str(_RETRY_AFTER_S)},
    )


def _number(request: web.Request, name: str, default: int) -> int:
    text = request.query.get(name)
    if text is None:
        return default
    if not _NUMBER.fullmatch(text):
        raise Malformed(f"{name} is {text[:20]!r}; send a whole number")
    return int(text)


def _time(unix_s: float) -> str:
    moment = datetime.fromtimestamp(unix_s, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
