"""A real server on a free port around the fake agent, and bare requests to it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import numpy as np
from aiohttp import ClientSession, web
from numpy.typing import NDArray

from edge.api.server import build_app, serving
from edge.api.settings import Limits
from tests.edge.api.fake_agent import SIDE, FakeAgent

DARK, GREY, BRIGHT = 0, 128, 255


def images(*shades: int) -> NDArray[np.uint8]:
    """uint8 [N, 4, 4], one even shade each."""
    return np.stack([np.full((SIDE, SIDE), shade, np.uint8) for shade in shades])


@dataclass(frozen=True)
class Running:
    agent: FakeAgent
    app: web.Application
    port: int
    http: ClientSession

    async def raw(self, *parts: bytes) -> bytes:
        """Send bytes as they are and keep our side open; all that comes until the server closes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.writelines(parts)
            return await reader.read()
        finally:
            writer.close()


@asynccontextmanager
async def running(
    agent: FakeAgent | None = None, limits: Limits | None = None
) -> AsyncGenerator[Running]:
    agent = agent or FakeAgent()
    app = build_app(agent, agent, limits)
    async with (
        serving(app, "127.0.0.1", 0) as port,
        ClientSession(f"http://127.0.0.1:{port}") as http,
    ):
        yield Running(agent, app, port, http)


def head(path: str, *headers: str, keep_alive: bool = False) -> bytes:
    """A POST's head."""
    connection = [] if keep_alive else ["Connection: close"]
    lines = [f"POST {path} HTTP/1.1", "Host: edge", *connection, *headers, "", ""]
    return "\r\n".join(lines).encode()
