"""Routes: one-time tokens, the certificates that they and present ones are good for, and the CRL."""

import asyncio
import time
from collections.abc import Iterator
from http import HTTPStatus

from aiohttp import web

from cloud.api.asking import Asking, actor_of
from cloud.api.routes import Route, document, done
from cloud.fleet.api import schemas
from cloud.fleet.api.settings import FleetApi
from cloud.fleet.api.tls import shown
from cloud.fleet.certifying import Certifying
from cloud.fleet.control import Control
from cloud.fleet.metrics import FleetMetrics
from cloud.gateway.attempts import Attempts
from cloud.gateway.refusals import RateLimited
from cloud.gateway.roles import Role
from shared.errors import NotTrusted, Refused

CRL_TYPE = "application/x-pem-file"
_OK, _MISSING, _CONFLICT = HTTPStatus.OK, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT
_REFUSED = (
    HTTPStatus.UNAUTHORIZED, HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
)  # fmt: skip


class EnrolmentRoutes:
    def __init__(
        self,
        control: Control,
        certifying: Certifying | None,
        asking: Asking,
        limits: FleetApi,
        metrics: FleetMetrics,
    ) -> None:
        self._control, self._certifying, self._asking = control, certifying, asking
        self._metrics = metrics
        self._attempts = Attempts(
            burst=limits.enrol_burst, per_s=limits.enrol_per_s,
            per_s_total=limits.enrol_per_s_total, addresses_max=10_000,
        )  # fmt: skip

    def routes(self) -> Iterator[Route]:
        yield Route(
            "POST", "/v1/tokens", self._make, "Make a token for one enrolment: shown this once",
            Role.OPERATOR, {HTTPStatus.CREATED: schemas.TokenAnswer}, takes=schemas.TokenRequest,
            problems=(HTTPStatus.TOO_MANY_REQUESTS,),
        )  # fmt: skip
        yield Route(
            "GET", "/v1/tokens", self._list, "Tokens, without their secrets", Role.VIEWER,
            {_OK: schemas.Tokens},
        )  # fmt: skip
        yield Route(
            "DELETE", "/v1/tokens/{token}", self._revoke, "Make a token worthless", Role.OPERATOR,
            {HTTPStatus.NO_CONTENT: ""}, problems=(_MISSING, _CONFLICT),
        )  # fmt: skip
        yield Route(
            "POST", "/v1/enrol", self._enrol,
            "A device's first certificate, for a token; no key is needed", None,
            {_OK: schemas.EnrolAnswer}, takes=schemas.EnrolRequest, problems=_REFUSED,
        )  # fmt: skip
        yield Route(
            "POST", "/v1/renew", self._renew,
            "A device's next certificate, for the one that its TLS connection shows", None,
            {_OK: schemas.EnrolAnswer}, takes=schemas.RenewRequest, problems=_REFUSED,
        )  # fmt: skip
        yield Route(
            "GET", "/v1/crl", self._crl, "The revoked certificates (RFC 5280), PEM", None,
            {_OK: CRL_TYPE}, problems=(_MISSING,),
        )  # fmt: skip

    async def _make(self, request: web.Request) -> web.Response:
        asked = await self._asking.read(request, schemas.TokenRequest)
        token, text = await self._control.change(
            self._control.fleet.make_token, actor_of(request), self._control.now(), asked.ttl_s,
            asked.device, asked.labels,
        )  # fmt: skip
        answer = schemas.TokenAnswer(token=text, document=token)
        response = document(answer, HTTPStatus.CREATED)
        response.headers["Cache-Control"] = "no-store"
        return response

    async def _list(self, _: web.Request) -> web.Response:
        found = await asyncio.to_thread(self._control.fleet.tokens)
        return document(schemas.Tokens(tokens=tuple(found)))

    async def _revoke(self, request: web.Request) -> web.Response:
        await self._control.change(
            self._control.fleet.revoke_token, request.match_info["token"], actor_of(request),
            self._control.now(),
        )  # fmt: skip
        return done()

    async def _enrol(self, request: web.Request) -> web.Response:
        self._hear(request)
        asked = await self._asking.read(request, schemas.EnrolRequest)
        certifying = self._here()
        try:
            answer = await asyncio.to_thread(
                certifying.enrol, asked.token, asked.device, asked.csr, self._control.now()
            )
        except Refused:
            self._failed(request)
            raise
        self._metrics.enrolled.inc()
        self._control.changed()
        known = await asyncio.to_thread(self._control.fleet.device, asked.device)
        if any(one.revoked_at is not None for one in known.certificates):
            self._control.certificates_revoked()  # the broker's rules shut it out until then
        return _fresh(answer)

    async def _renew(self, request: web.Request) -> web.Response:
        self._hear(request)
        certifying = self._here()
        try:
            certificate = shown(request)
            if certificate is None:
                raise NotTrusted(
                    "no client certificate came with this connection: renew over https with the "
                    "present certificate, or enrol with a token"
                )
            asked = await self._asking.read(request, schemas.RenewRequest)
            answer = await asyncio.to_thread(
                certifying.renew, certificate, asked.csr, self._control.now()
            )
        except Refused:
            self._failed(request)
            raise
        self._metrics.renewed.inc()
        self._control.changed()
        return _fresh(answer)

    async def _crl(self, _: web.Request) -> web.Response:
        content = await asyncio.to_thread(self._here().crl, self._control.now())
        return web.Response(text=content, content_type=CRL_TYPE)

    def _here(self) -> Certifying:
        if self._certifying is None:
            raise Refused(
                "this region enrols no devices: it has no [identity] in its settings; ask whoever "
                "runs it (`hybridge fleet init` makes what it takes)"
            )
        return self._certifying

    def _hear(self, request: web.Request) -> None:
        if wait_s := self._attempts.blocked_s(request.remote, time.monotonic()):
            self._metrics.enrolments_refused.inc()
            raise RateLimited("failures", "too many enrolments from there were refused", wait_s)

    def _failed(self, request: web.Request) -> None:
        self._metrics.enrolments_refused.inc()
        self._attempts.failed(request.remote, time.monotonic())


def _fresh(answer: schemas.EnrolAnswer) -> web.Response:
    response = document(answer)
    response.headers["Cache-Control"] = "no-store"
    return response
