"""HTTP for the operator: all of it on a Unix socket of the broker's own user, numbers over TCP.

On the socket: GET /status, GET /sessions (`after`, `prefix`, `limit`), POST /sessions/kick,
GET /metrics, GET /healthz. Over TCP: only the last two.

A client id may hold any character, `/` and `..` included, and clients and proxies rewrite such
paths: it travels in the JSON body of `kick` and in the query of `sessions`, never in a path.
"""

import asyncio
import contextlib
import logging
import os
import socket
import stat
from collections.abc import AsyncGenerator
from http import HTTPStatus
from pathlib import Path
from typing import Final, Protocol

from aiohttp import web
from aiohttp.typedefs import Handler
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from cloud.broker.operations import metrics
from cloud.broker.operations.status import SessionPage, Status
from shared.config import in_words
from shared.errors import HybridgeError, InUse, Malformed, Refused, Unknown
from shared.http_noise import quiet_logger

log = logging.getLogger(__name__)

SOCKET_NAME: Final = "admin.sock"
SOCKET_PATH_BYTES_MAX: Final = 107
"""unix(7): `sun_path` has 108 bytes, one of them the final NUL."""
BODY_BYTES_MAX: Final = 512 * 1024
"""A client id is 65,535 bytes at most, and up to six times that in JSON."""
CONNECTIONS_MAX: Final = 64
"""Of each listener: scrapers and operators, never devices."""
IDLE_S_MAX: Final = 10.0
"""Without a whole request head."""
DRAIN_S_MAX: Final = 2.0
"""For requests in flight when the broker stops."""


class Kick(BaseModel):
    """The body of POST /sessions/kick."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    client_id: str
    forget: bool = False
    """Also end the session: its subscriptions and what waits for it are gone."""


class Operable(Protocol):
    """What the broker's shell offers to its operator."""

    async def status(self) -> Status:
        """Count everything."""

    def page(self, *, after: str = "", prefix: str = "", limit: int = 100) -> SessionPage:
        """Give a page of sessions; raises `Malformed` for a limit out of bounds."""

    def kick(self, client_id: str, *, forget: bool) -> bool:
        """Close a client's connection with 0x98; False if it has no session here."""
