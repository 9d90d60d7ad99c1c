"""The operator's HTTP on a Unix socket and on a TCP port, each for as long as a block lasts."""

import asyncio
import os
import socket
import stat
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from aiohttp import web

from cloud.broker.operations.admin import Operable, everything, numbers
from cloud.broker.operations.admin_socket import socket_path
from shared.errors import InUse
from shared.http_noise import quiet_logger

CONNECTIONS_MAX: Final = 64
"""Of each listener: scrapers and operators, never devices. One more is closed at once."""
IDLE_S_MAX: Final = 10.0
"""Without a whole request head."""
DRAIN_S_MAX: Final = 2.0
"""For requests in flight when the broker stops."""


@asynccontextmanager
async def admin_listening(broker: Operable, state_dir: Path) -> AsyncGenerator[Path]:
    """Serve everything on `admin.sock` in `state_dir`, mode 0600; yields its path.

    A socket that a killed broker left is replaced; at the end ours is removed.

    Raises:
        Malformed: the path is too long for a socket.
        InUse: another broker answers there, or something that is no socket stands there.

    """
    path = socket_path(state_dir)
    async with _running(everything(broker)) as factory:
        listening = _bind(path)
        try:
            inode = path.stat().st_ino
            loop = asyncio.get_running_loop()
            listener = await loop.create_unix_server(factory, sock=listening)
            try:
                yield path
            finally:
                listener.close()
                if _inode(path) == inode:
                    path.unlink()
        finally:
            listening.close()


@asynccontextmanager
async def metrics_listening(broker: Operable, host: str, port: int) -> AsyncGenerator[int]:
    """Serve /metrics and /healthz over TCP; yields the real port. Raises `InUse` if it is taken."""
    async with _running(numbers(broker)) as factory:
        loop = asyncio.get_running_loop()
        try:
            listener = await loop.create_server(factory, host, port)
        except OSError as error:
            raise InUse(
                f"metrics: cannot listen on {host}:{port} ({error.strerror}); "
                "set --metrics-port to a port that is free, or to 0"
            ) from error
        try:
            yield listener.sockets[0].getsockname()[1]
        finally:
            listener.close()


@asynccontextmanager
async def _running(
    app: web.Application,
) -> AsyncGenerator[Callable[[], asyncio.BaseProtocol]]:
    """Give what makes a protocol for each connection, and finish requests in flight at the end."""
    runner = web.AppRunner(
        app, access_log=None, logger=quiet_logger(lambda: None),
        keepalive_timeout=IDLE_S_MAX, shutdown_timeout=DRAIN_S_MAX,
    )  # fmt: skip
    await runner.setup()
    server = runner.server
    assert server is not None, "setup() made it"

    def connect() -> asyncio.BaseProtocol:
        return server() if len(server.connections) < CONNECTIONS_MAX else _TooMany()

    try:
        yield connect
    finally:
        await runner.cleanup()


class _TooMany(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


def _bind(path: Path) -> socket.socket:
    """Bind, then narrow the mode: nobody can connect before `listen`, so there is no gap."""
    _clear(path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.setblocking(False)
        listening.bind(str(path))
        path.chmod(stat.S_IRUSR | stat.S_IWUSR)
    except OSError as error:
        listening.close()
        raise InUse(f"{path}: cannot listen there ({error.strerror})") from error
    return listening


def _clear(path: Path) -> None:
    """Remove the socket that a killed broker left behind."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise InUse(f"{path}: is no socket; move it away, or choose another state directory")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
        except OSError as error:  # BlockingIOError: it is there and busy
            raise InUse(f"{path}: a broker may be running there ({error.strerror})") from error
    raise InUse(f"{path}: a broker is running there; stop it, or choose another state directory")


def _inode(path: Path) -> int | None:
    try:
        return os.lstat(path).st_ino
    except FileNotFoundError:
        return None
