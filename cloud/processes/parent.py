"""Start as many serving processes as the settings ask for, and live and die with them.

The broker is the parent's child too, so it outlives no process and is restarted by none. The port
is held by a socket that never listens: the kernel spreads connections over the processes' own
sockets on it (SO_REUSEPORT), so there is no hop and no process in front of them.
"""

import asyncio
import contextlib
import json
import logging
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from urllib.parse import quote

from cloud.broker.launch import BrokerAddress, broker_running
from cloud.config import Config
from cloud.processes.place import Place
from shared.errors import Disconnected, InUse, Unavailable
from shared.http_url import http_url

log = logging.getLogger(__name__)

_START_S_MAX = 300.0  # models load and are measured; TensorRT builds for minutes
_GRACE_S = 5.0  # beyond the children's own drain, until they are killed


class Parent:
    """Has the face of `Service`, so that `__main__` runs either."""

    def __init__(
        self, config: Config, arguments: Sequence[str], on_ready: Callable[[str, str], None]
    ) -> None:
        """`arguments`: this process's own, which each child reads again."""
        self._config, self._arguments, self._announce = config, tuple(arguments), on_ready
        self._stop = asyncio.Event()
        self._address: BrokerAddress | None = None
        self._children: list[Process] = []
        self._serving = False

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    def stop(self) -> None:
        self._stop.set()

    def read_again(self) -> None:
        """Passwords, ACLs and keys, everywhere."""
        if self._address is not None:
            self._address.read_access_again()
        if not self._serving:
            return  # they read everything at their start, and would die of the signal until then
        for child in self._children:
            with contextlib.suppress(ProcessLookupError):
                child.send_signal(signal.SIGHUP)

    async def run(self) -> bool:
        """Whether every child drained in time. Raises `Refused` or `Unavailable`."""
        api = self._config.api
        with _held(api.host, api.port) as port:
            async with broker_running(self._config.broker) as address:
                self._address = address
                async with self._running(port, address) as broker:
                    self._announce(http_url(api.host, port), broker)
                    await self._until_stopped(address)
                return all(child.returncode == 0 for child in self._children)

    @contextlib.asynccontextmanager
    async def _running(self, port: int, address: BrokerAddress) -> AsyncIterator[str]:
        """The children, ready; gives the broker's address for people."""
        try:
            for index in range(self._config.processes):
                self._children.append(await self._started(index, port, address))
            async with asyncio.timeout(_START_S_MAX):
                ready = [await _ready(child) for child in self._children]
            self._serving = True
            yield ready[0]
        except TimeoutError as error:
            raise Unavailable(f"a serving process was not ready in {_START_S_MAX:g} s") from error
        finally:
            await self._end()

    async def _started(self, index: int, port: int, address: BrokerAddress) -> Process:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "cloud", *self._arguments, "--child",
            stdin=PIPE, stdout=PIPE, start_new_session=True,
        )  # fmt: skip
        assert child.stdin is not None
        child.stdin.write(Place(index, self._config.processes, port, _url(address)).line())
        await child.stdin.drain()
        return child

    async def _until_stopped(self, address: BrokerAddress) -> None:
        """Until asked to; raises a group when a child or the broker ends by itself."""
        async with asyncio.TaskGroup() as parts:
            watches = [parts.create_task(_watch(child)) for child in self._children]
            watches.append(parts.create_task(address.watch()))
            await self._stop.wait()
            for watch in watches:
                watch.cancel()

    async def _end(self) -> None:
        for child in self._children:
            with contextlib.suppress(ProcessLookupError):
                child.terminate()
        try:
            async with asyncio.timeout(self._config.drain_s + self._config.notice_s + _GRACE_S):
                await asyncio.gather(*(child.wait() for child in self._children))
        except TimeoutError:
            for child in self._children:
                if child.returncode is None:
                    log.error("serving_process_killed", extra={"pid": child.pid})  # noqa: TRY400
                    child.kill()
                    await child.wait()


async def _watch(child: Process) -> None:
    code = await child.wait()
    raise Disconnected(f"serving process {child.pid} ended with code {code}; see its log")


async def _ready(child: Process) -> str:
    assert child.stdout is not None
    line = await child.stdout.readline()
    if not line:
        code = await child.wait()
        raise Unavailable(f"a serving process ended with code {code} before it was ready")
    return str(json.loads(line)["broker"])


def _url(address: BrokerAddress) -> str:
    host, port, tls = address.for_owner
    who = ""
    if address.username is not None:
        who = f"{quote(address.username, safe='')}:{quote(address.password or '', safe='')}@"
    return f"mqtt{'s' if tls else ''}://{who}{host}:{port}"


@contextlib.contextmanager
def _held(host: str, port: int) -> Iterator[int]:
    """Keep a port for the children: bound, so nobody else gets it, and never listening."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            held.bind((host, port))
        except OSError as error:
            raise InUse(f"api: cannot listen on {host}:{port}: {error.strerror}") from error
        yield int(held.getsockname()[1])
