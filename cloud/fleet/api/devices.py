"""Routes: devices, and what operators do with them."""

import asyncio
from collections.abc import Iterator
from http import HTTPStatus

from aiohttp import web

from cloud.api.asking import QUERY, Asking, actor_of, number_of, revision_of
from cloud.api.routes import Query, Route, document, done, revised
from cloud.fleet.api import schemas
from cloud.fleet.api.checked import PATHS
from cloud.fleet.api.settings import FleetApi
from cloud.fleet.control import Control
from cloud.fleet.documents import Device
from cloud.gateway.roles import Role
from shared.errors import Conflict, Malformed
from shared.fleet.asking import LINES_MAX, Told

COMMENT_LENGTH_MAX = 500
SELECTOR_LENGTH_MAX = 500
_OK, _MISSING, _CONFLICT = HTTPStatus.OK, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT
_PATH = "/v1/devices/{device}"


class DeviceRoutes:
    def __init__(self, control: Control, asking: Asking, limits: FleetApi) -> None:
        self._control, self._fleet, self._asking = control, control.fleet, asking
        self._limits = limits

    def routes(self) -> Iterator[Route]:
        yield Route(
            "GET", "/v1/devices", self._list, "Devices that a selector takes, by name", Role.VIEWER,
            {_OK: schemas.Devices},
            queries=(Query("selector"), Query("after"), Query("limit", minimum=1, maximum=10_000)),
        )  # fmt: skip
        yield Route(
            "GET", _PATH, self._get, "A device: what it is, has and should have", Role.VIEWER,
            {_OK: Device}, problems=(_MISSING,),
        )  # fmt: skip
        yield Route(
            "DELETE", _PATH, self._remove, "Forget a device; its certificates are revoked",
            Role.OPERATOR, {HTTPStatus.NO_CONTENT: ""}, problems=(_MISSING, _CONFLICT),
            queries=(Query("comment"),),
        )  # fmt: skip
        yield Route(
            "PUT", _PATH + "/labels", self._label, "Give a device these labels and no others",
            Role.OPERATOR, {_OK: Device}, takes=schemas.LabelsRequest,
            problems=(_MISSING, _CONFLICT),
        )  # fmt: skip
        yield Route(
            "POST", _PATH + "/revoke", self._revoke,
            "Its certificates are worth nothing from now on", Role.OPERATOR, {_OK: Device},
            takes=schemas.CommentRequest, problems=(_MISSING, _CONFLICT),
        )  # fmt: skip
        yield Route(
            "POST", _PATH + "/quarantine", self._quarantine, "Keep a device out of rollouts",
            Role.OPERATOR, {_OK: Device}, takes=schemas.QuarantineRequest,
            problems=(_MISSING, _CONFLICT),
        )  # fmt: skip
        yield Route(
            "POST", _PATH + "/release", self._release, "End a device's quarantine", Role.OPERATOR,
            {_OK: Device}, takes=schemas.CommentRequest, problems=(_MISSING, _CONFLICT),
        )  # fmt: skip
        yield Route(
            "GET", _PATH + "/logs", self._logs, "Ask a device for its newest log lines",
            Role.OPERATOR, {_OK: Told},
            problems=(_MISSING, _CONFLICT, HTTPStatus.GATEWAY_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS),
            queries=(Query("lines", minimum=1, maximum=LINES_MAX),), head=False,
        )  # fmt: skip
        yield Route(
            "GET", _PATH + "/events", self._events, "What happened to a device, the oldest first",
            Role.VIEWER, {_OK: schemas.Events},
            queries=(
                Query("after", minimum=0, maximum=2**53), Query("limit", minimum=1, maximum=1000),
            ),
        )  # fmt: skip

    async def _list(self, request: web.Request) -> web.Response:
        query = request[QUERY]
        selector, after = query.get("selector", ""), query.get("after", "")
        if len(selector) > SELECTOR_LENGTH_MAX:
            raise Malformed(
                f"selector: {len(selector)} characters; at most {SELECTOR_LENGTH_MAX} are read"
            )
        if after:
            PATHS.check("device", after)
        limit = min(number_of(request, "limit", 1000), self._limits.page_max)

        def page() -> bytes:
            devices, following = self._fleet.devices(selector, after, limit)
            answer = schemas.Devices(devices=tuple(devices), next=following)
            return answer.model_dump_json().encode()  # a thousand take 10 ms

        return web.Response(body=await asyncio.to_thread(page), content_type="application/json")

    async def _get(self, request: web.Request) -> web.Response:
        return revised(await self._device(request))

    async def _remove(self, request: web.Request) -> web.Response:
        revision, comment = revision_of(request), comment_of(request)
        device = request.match_info["device"]
        await self._control.change(
            self._fleet.remove, device, actor_of(request), self._control.now(), revision, comment
        )
        self._control.left(device, "removed")
        self._control.certificates_revoked()
        self._control.publishing.clear(device)
        return done()

    async def _label(self, request: web.Request) -> web.Response:
        revision = revision_of(request)
        asked = await self._asking.read(request, schemas.LabelsRequest)
        device = request.match_info["device"]
        await self._control.change(
            self._fleet.label,
            device,
            asked.labels,
            actor_of(request),
            self._control.now(),
            revision,
        )
        return revised(await self._device(request))

    async def _revoke(self, request: web.Request) -> web.Response:
        revision = revision_of(request)
        asked = await self._asking.read(request, schemas.CommentRequest)
        device = request.match_info["device"]
        await self._control.change(
            self._fleet.revoke,
            device,
            asked.comment,
            actor_of(request),
            self._control.now(),
            revision,
        )
        self._control.certificates_revoked()
        self._control.left(device, "revoked")
        return revised(await self._device(request))

    async def _quarantine(self, request: web.Request) -> web.Response:
        revision = revision_of(request)
        asked = await self._asking.read(request, schemas.QuarantineRequest)
        device = request.match_info["device"]
        if asked.until is not None and asked.until <= self._control.now():
            raise Malformed("until: has passed already; give a later time, in Unix seconds")
        await self._control.change(
            self._fleet.quarantine, device, asked.comment, asked.until, actor_of(request),
            self._control.now(), revision,
        )  # fmt: skip
        self._control.left(device, "quarantined")
        return revised(await self._device(request))

    async def _release(self, request: web.Request) -> web.Response:
        revision = revision_of(request)
        asked = await self._asking.read(request, schemas.CommentRequest)
        await self._control.change(
            self._fleet.end_quarantine, request.match_info["device"], asked.comment,
            actor_of(request), self._control.now(), revision,
        )  # fmt: skip
        self._control.returned(request.match_info["device"])
        return revised(await self._device(request))

    async def _logs(self, request: web.Request) -> web.Response:
        device = await self._device(request)
        lines = number_of(request, "lines", 100)
        if device.revoked_at is not None:
            raise Conflict(f"{device.id} is revoked: what it says is not heard")
        response = document(await self._control.asks.logs(device.id, lines))
        response.headers["Cache-Control"] = "no-store"
        return response

    async def _events(self, request: web.Request) -> web.Response:
        found = await asyncio.to_thread(
            self._fleet.events, number_of(request, "after", 0), number_of(request, "limit", 500),
            device=request.match_info["device"],
        )  # fmt: skip
        return document(schemas.Events(events=tuple(found)))

    async def _device(self, request: web.Request) -> Device:
        return await asyncio.to_thread(self._fleet.device, request.match_info["device"])


def comment_of(request: web.Request) -> str:
    """Of the query, for what takes no body. Raises `Malformed`."""
    comment = request[QUERY].get("comment", "")
    if len(comment) > COMMENT_LENGTH_MAX:
        raise Malformed(f"comment: {len(comment)} characters; at most {COMMENT_LENGTH_MAX}")
    return comment
