"""A region's two addresses for certificates: the real CA, TLS and rules, and a store in memory."""

import secrets
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

from cloud.fleet.api.tls import server_context, shown
from cloud.fleet.documents import EnrolmentToken
from cloud.fleet.identity.ca import CERTIFICATE, DeviceCa, IssuedCertificate
from cloud.fleet.identity.enrolment import admit, new_token, presented
from cloud.fleet.identity.renewal import check_renewal, renew_after
from cloud.fleet.setup.init import create
from cloud.fleet.setup.layout import Layout
from edge.identity.files import install
from edge.identity.key import new_key_and_request
from shared.errors import HybridgeError

NAMES = ("127.0.0.1", "localhost")


@dataclass
class RegionApi:
    at: Layout
    ca: DeviceCa
    url: str = ""
    days: float = 90.0
    """Of the certificates that it gives."""
    tokens: dict[str, tuple[EnrolmentToken, str]] = field(default_factory=dict)
    revoked: set[str] = field(default_factory=set)
    issued: list[IssuedCertificate] = field(default_factory=list)
    signs_as: str | None = None
    """Whom it names in certificates; None: who asks."""
    answer: web.Response | None = None
    """Instead of a good one."""
    shown: list[str] = field(default_factory=list)
    """Serials that asked for renewal."""

    def token(self, device: str | None = None) -> str:
        made = new_token(
            made_by="ops", now=time.time(), ttl_s=600, random_bytes=secrets.token_bytes,
            device=device,
        )  # fmt: skip
        self.tokens[made.document.id] = (made.document, made.secret_sha256)
        return made.text

    def enrolled_before(self, device: str, state_dir: Path, at: float, days: float) -> str:
        """Put a certificate of another time on a device; gives its serial."""
        key, request = new_key_and_request(device)
        made = self.ca.issue(request, device, at, days)
        install(state_dir, key, made.pem.encode(), self.ca.servers_pem.encode())
        return made.serial

    async def enrol(self, request: web.Request) -> web.Response:
        body = await request.json()
        found = presented(body["token"])
        stored, secret = self.tokens.get(found.id, (None, ""))
        name = admit(found, stored, secret, body["device"], time.time())
        assert stored is not None
        used = stored.model_copy(update={"used_at": time.time(), "used_for": name})
        self.tokens[found.id] = (used, secret)
        return self._issue(body["csr"], name)

    async def renew(self, request: web.Request) -> web.Response:
        own = shown(request)
        assert own is not None
        self.shown.append(own.serial)
        name = check_renewal(
            own, time.time(), grace_days=365, revoked=self.revoked, is_enrolled=True
        )
        return self._issue((await request.json())["csr"], name)

    def _issue(self, csr: str, name: str) -> web.Response:
        if self.answer is not None:
            return self.answer
        made = self.ca.issue(csr, self.signs_as or name, time.time(), self.days)
        self.issued.append(made)
        return web.json_response({
            "certificate": made.pem, "ca": self.ca.servers_pem, "broker": "mqtts://127.0.0.1:8883",
            "renew_after": renew_after(made.not_before, made.not_after), "later": "ignored",
        })  # fmt: skip


@web.middleware
async def _problems(request: web.Request, handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except HybridgeError as error:
        body = {"detail": str(error)}
        return web.json_response(body, status=403, content_type="application/problem+json")


@asynccontextmanager
async def region_api(
    folder: Path, server: ssl.SSLContext | None = None
) -> AsyncIterator[RegionApi]:
    at = Layout(folder)
    if not at.devices_ca.exists():
        create(folder, "lyon", NAMES)
    region = RegionApi(at, DeviceCa.open(at.devices_ca))
    app = web.Application(middlewares=[_problems])
    app.router.add_post("/v1/enrol", region.enrol)
    app.router.add_post("/v1/renew", region.renew)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    tls = server or server_context(
        at.certificate("server"), at.key("server"), at.devices_ca / CERTIFICATE
    )
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    port = runner.addresses[0][1]
    region.url = f"https://127.0.0.1:{port}"
    try:
        yield region
    finally:
        await runner.cleanup()
