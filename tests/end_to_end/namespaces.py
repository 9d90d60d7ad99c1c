"""Places that are joined by a network which can be cut: for tests of regions with real processes.

`Namespaces`: each place has a network namespace of its own; a cable (veth) leads from it to a bridge,
and a second one to the test, which therefore sees everybody whatever is cut. A cut cable swallows
packets, as a broken line does. It needs root.

`Proxies`: every place on this machine, each way from one to another through a TCP proxy of its own. A
cut one drops its connections and refuses new ones. It needs nothing.
"""

import asyncio
import contextlib
import ctypes
import os
import shutil
import socket
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from itertools import permutations
from pathlib import Path

PLACES = ("home", "replica", "other", "device")
_PORT = 8080  # the same in every namespace
_NEWNET = 0x40000000  # CLONE_NEWNET of setns(2)
_CHUNK = 1 << 16


class Network(ABC):
    @abstractmethod
    def listen(self, place: str) -> tuple[str, int]:
        """Where a server in this place is to listen."""

    @abstractmethod
    def url(self, of: str, seen_from: str | None = None) -> str:
        """Of the server in `of`, for who is in another place; None: for the test itself."""

    @abstractmethod
    def arguments(self, place: str, arguments: Sequence[str]) -> tuple[str, ...]:
        """Those of a Python process that runs in this place."""

    @abstractmethod
    async def cut(self, place: str) -> None:
        """Nobody but the test reaches this place any more, and it reaches nobody."""

    @abstractmethod
    async def heal(self, place: str) -> None: ...


class Namespaces(Network):
    def __init__(self) -> None:
        number = os.getpid()
        self._prefix = f"hy{number}"
        # the block for addresses inside a carrier's network (RFC 6598), by process id
        self._test_side = f"100.{64 + (number >> 8) % 64}.{number % 256}"

    def listen(self, place: str) -> tuple[str, int]:
        return "0.0.0.0", _PORT

    def url(self, of: str, seen_from: str | None = None) -> str:
        index = PLACES.index(of)
        host = f"192.0.2.{index + 1}" if seen_from else f"{self._test_side}.{4 * index + 2}"
        return f"http://{host}:{_PORT}"

    def arguments(self, place: str, arguments: Sequence[str]) -> tuple[str, ...]:
        return (__file__, self._name(place), *arguments)

    async def cut(self, place: str) -> None:
        await asyncio.to_thread(self._cable, place, "down")

    async def heal(self, place: str) -> None:
        await asyncio.to_thread(self._cable, place, "up")

    def make(self) -> None:
        middle = self._name("middle")
        _ip("netns", "add", middle)
        _ip("-n", middle, "link", "add", "bridge", "type", "bridge")
        _ip("-n", middle, "link", "set", "bridge", "up")
        for index, place in enumerate(PLACES):
            name = self._name(place)
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
            self._join(name, "wire", f"192.0.2.{index + 1}/24", place, middle)
            _ip("-n", middle, "link", "set", place, "master", "bridge")
            mine = f"{self._prefix}{index}"
            address = f"{self._test_side}.{4 * index}"
            self._join(name, "test", f"{address.rsplit('.', 1)[0]}.{4 * index + 2}/30", mine, None)
            _ip("addr", "add", f"{self._test_side}.{4 * index + 1}/30", "dev", mine)

    def remove(self) -> None:
        for place in ("middle", *PLACES):
            with contextlib.suppress(OSError):
                _ip("netns", "del", self._name(place))  # its cables go with it

    def _join(self, name: str, inside: str, address: str, outside: str, to: str | None) -> None:
        """One cable from `inside` in the namespace to `outside` in another; None: in the test's."""
        at = [] if to is None else ["-n", to]
        _ip(
            *at,
            "link",
            "add",
            "name",
            outside,
            "type",
            "veth",
            "peer",
            "name",
            inside,
            "netns",
            name,
        )
        _ip("-n", name, "addr", "add", address, "dev", inside)
        _ip("-n", name, "link", "set", inside, "up")
        _ip(*at, "link", "set", outside, "up")

    def _cable(self, place: str, state: str) -> None:
        _ip("-n", self._name("middle"), "link", "set", place, state)

    def _name(self, place: str) -> str:
        return f"{self._prefix}-{place}"


class Proxies(Network):
    def __init__(self) -> None:
        self._ports = {place: _free_port() for place in PLACES}
        self._ways: dict[tuple[str, str], Way] = {}

    def listen(self, place: str) -> tuple[str, int]:
        return "127.0.0.1", self._ports[place]

    def url(self, of: str, seen_from: str | None = None) -> str:
        port = self._ports[of] if seen_from is None else self._ways[seen_from, of].port
        return f"http://127.0.0.1:{port}"

    def arguments(self, place: str, arguments: Sequence[str]) -> tuple[str, ...]:
        return tuple(arguments)

    async def cut(self, place: str) -> None:
        for way in self.ways(place):
            way.cut()

    async def heal(self, place: str) -> None:
        for way in self.ways(place):
            way.heal()

    def ways(self, place: str) -> "list[Way]":
        return [way for ends, way in self._ways.items() if place in ends]

    def way(self, source: str, target: str) -> "Way":
        return self._ways[source, target]

    async def make(self) -> None:
        for source, target in permutations(PLACES, 2):
            self._ways[source, target] = await Way.open(self._ports[target])

    async def remove(self) -> None:
        for way in self._ways.values():
            await way.close()


class Way:
    """A TCP proxy. `passes_bytes`: of answers, after which it says nothing more and stays silent."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._is_cut = False
        self.passes_bytes: int | None = None
        self.stalled = asyncio.Event()

    @classmethod
    async def open(cls, target: int) -> "Way":
        way = cls(target)
        way._server = await asyncio.start_server(way._serve, "127.0.0.1", 0)
        return way

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    def cut(self) -> None:
        self._is_cut = True
        for task in self._connections:
            task.cancel()

    def heal(self) -> None:
        self._is_cut = False

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            if not self._is_cut:
                await self._join(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # nobody is there, or the line is cut
        finally:
            writer.transport.abort()
            self._connections.discard(task)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, asks = await asyncio.open_connection("127.0.0.1", self._target)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass(reader, asks, counts=False))
                both.create_task(self._pass(answers, writer, counts=True))
        except* OSError:
            pass  # one of the two ends is gone
        finally:
            asks.transport.abort()

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, counts: bool
    ) -> None:
        while chunk := await reader.read(_CHUNK):
            if counts and self.passes_bytes is not None:
                if self.passes_bytes <= 0:
                    self.stalled.set()
                    await asyncio.Event().wait()
                self.passes_bytes -= len(chunk)
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()


@cache
def why_no_namespaces() -> str | None:
    """None: they work here."""
    if shutil.which("ip") is None:
        return "there is no `ip` (Debian: iproute2)"
    name = f"hy{os.getpid()}-try"
    try:
        _ip("netns", "add", name)
        try:
            _ip("-n", name, "link", "add", "name", "one", "type", "veth", "peer", "name", "two")
        finally:
            _ip("netns", "del", name)
    except OSError as error:
        return f"no network namespaces here ({error}); as root they work"
    return None


@asynccontextmanager
async def namespaces() -> AsyncIterator[Namespaces]:
    network = Namespaces()
    try:
        await asyncio.to_thread(network.make)
        yield network
    finally:
        await asyncio.to_thread(network.remove)


@asynccontextmanager
async def proxies() -> AsyncIterator[Proxies]:
    network = Proxies()
    try:
        await network.make()
        yield network
    finally:
        await network.remove()


def _ip(*arguments: str) -> None:
    """Raises `OSError` with what it says."""
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _main(name: str, *arguments: str) -> None:
    """Enter a namespace and become the process that is to run in it: its process id stays."""
    folder = os.open(Path("/run/netns") / name, os.O_RDONLY | os.O_CLOEXEC)
    if ctypes.CDLL(None, use_errno=True).setns(folder, _NEWNET):
        raise OSError(ctypes.get_errno(), f"setns {name}")
    os.execv(sys.executable, [sys.executable, *arguments])


if __name__ == "__main__":
    _main(*sys.argv[1:])
