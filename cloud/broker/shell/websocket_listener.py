"""The listener for MQTT over WebSockets: who may open one, and on what terms (section 6).

Browsers send the Origin of the page: only those listed are let in, or any page that somebody in the
network looks at could speak to the broker. Programs send none, or, as paho does, the address that
they connect to. That is let in where it is an IP address or localhost, which only this machine can
have served a page from; a name could be another's that points here (DNS rebinding), so it has to be
listed.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from http import HTTPStatus
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from aiohttp import hdrs, web

from cloud.broker.shell.peer import Peer
from cloud.broker.shell.server import BACKLOG, Server
from cloud.broker.shell.websocket import CLOSE_S_MAX, Channel
from shared.errors import InUse
from shared.http_noise import quiet_logger

SUBPROTOCOL: Final = "mqtt"
"""The client must offer it and the server must take it (6.0.0-3, 6.0.0-4)."""
PATHS: Final = ("/mqtt", "/")
"""The default of most clients, and of the rest."""
MESSAGE_SLACK_BYTES: Final = 65_536
"""A message that holds several packets may be this much longer than the longest packet."""


@asynccontextmanager
async def websockets_listening(
    server: Server,
    host: str,
    port: int,
    tls: ssl.SSLContext | None = None,
    origins: frozenset[str] = frozenset(),
) -> AsyncGenerator[tuple[str, int]]:
    """Take MQTT over WebSockets for `server`; yields the address bound. Raises `InUse`.

    `origins` are the web pages that may connect, as browsers write them: `https://host[:port]`.
    Call `Server.drain` before the block ends: its good-byes travel over these connections.
    """
    limits = server.limits
    runner = web.AppRunner(
        _application(server, origins), access_log=None,
        logger=quiet_logger(lambda: None),
        keepalive_timeout=limits.connect_timeout_s, shutdown_timeout=0.0,
    )  # fmt: skip
    await runner.setup()
    http = runner.server
    assert http is not None, "setup() made it"

    def connect() -> asyncio.BaseProtocol:
        return http() if len(http.connections) < limits.connections_max else _TooMany(server)

    try:
        try:
            listener = await asyncio.get_running_loop().create_server(
                connect, host, port, ssl=tls, backlog=BACKLOG,
                ssl_handshake_timeout=limits.connect_timeout_s if tls is not None else None,
            )  # fmt: skip
        except OSError as error:
            raise InUse(
                f"websockets: cannot listen on {host}:{port} ({error.strerror or error}); "
                "stop what uses it, or set --websocket-port to a port that is free"
            ) from error
        server.listeners.append(listener)
        try:
            bound: tuple[str, int] = listener.sockets[0].getsockname()[:2]
            yield bound
        finally:
            listener.close()
    finally:
        await runner.cleanup()


def _application(server: Server, origins: frozenset[str]) -> web.Application:
    async def upgrade(request: web.Request) -> web.StreamResponse:
        if (refusal := _refusal(request, origins)) is not None:
            status, why = refusal
            server.warn("websocket_refused", status.phrase, why)
            return web.Response(text=f"{why}\n", status=status)
        frames = web.WebSocketResponse(
            protocols=(SUBPROTOCOL,), compress=False, writer_limit=0,
            max_msg_size=server.limits.packet_bytes_max + MESSAGE_SLACK_BYTES,
            timeout=CLOSE_S_MAX,
        )  # fmt: skip
        await frames.prepare(request)
        if request.transport is not None:  # None: it has just gone
            await Channel(frames, request.transport, Peer(server)).run()
        return frames

    app = web.Application()
    for path in PATHS:
        app.router.add_get(path, upgrade)
    return app


def _refusal(request: web.Request, origins: frozenset[str]) -> tuple[HTTPStatus, str] | None:
    """Why a request opens no WebSocket; None: it may."""
    origin = request.headers.get(hdrs.ORIGIN)
    if origin is not None and origin not in origins and not _is_own(origin, request.host):
        why = f"web page {origin[:200]} is not among those that may connect (--websocket-origin)"
        return HTTPStatus.FORBIDDEN, why
    if request.headers.get(hdrs.UPGRADE, "").lower() != "websocket":
        return HTTPStatus.UPGRADE_REQUIRED, "this is MQTT over WebSockets, for MQTT clients"
    offered = request.headers.getall(hdrs.SEC_WEBSOCKET_PROTOCOL, [])
    if SUBPROTOCOL not in {one.strip() for line in offered for one in line.split(",")}:
        return HTTPStatus.BAD_REQUEST, f"offer the subprotocol '{SUBPROTOCOL}' (MQTT, section 6)"
    return None


def _is_own(origin: str, host: str) -> bool:
    """Whether an Origin is the very address asked for, and that address can be no other's."""
    scheme, _, authority = origin.partition("://")
    if scheme not in {"http", "https"} or authority != host:
        return False
    try:
        name = urlsplit(origin).hostname or ""
        return name == "localhost" or bool(ip_address(name))
    except ValueError:
        return False


class _TooMany(asyncio.Protocol):
    """Closes, as one TCP connection too many is closed."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        words = f"{self._server.limits.connections_max} connections are open, which is the limit"
        self._server.warn("connection_refused", "limit", words)
        transport.close()
