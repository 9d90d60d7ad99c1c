"""The open loop's load generator: `python -m simulations.serve_bench.open_loop`, its order on stdin.

One process that does nothing else. It prints when it begins, and writes what it found as .npz.
"""

import asyncio
import contextlib
import gc
import json
import sys
import time
from base64 import b64decode
from collections import deque
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final, cast

import numpy as np
import uvloop

from simulations.serve_bench.arrivals import Stretch, poisson
from simulations.serve_bench.timer import Timer

_LENGTH: Final = b"\r\ncontent-length:"
_LAST_ANSWERS_S: Final = 5.0
_HEAD_START_S: Final = 0.2
Answered = Callable[["_Connection", int, int], None]


class _Connection(asyncio.Protocol):
    """One request at a time; `answered` hears of its status, 0 when the connection broke."""

    def __init__(self, answered: Answered, lost: Callable[["_Connection"], None]) -> None:
        self._answered, self._lost = answered, lost
        self._request = -1
        self._held = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def connection_lost(self, _: Exception | None) -> None:
        request, self._request = self._request, -1
        self._lost(self)
        if request >= 0:
            self._answered(self, request, 0)

    def send(self, request: int, message: bytes) -> None:
        self._request = request
        self.transport.write(message)

    def data_received(self, data: bytes) -> None:
        data = self._held + data if self._held else data
        end = data.find(b"\r\n\r\n")
        if end >= 0:
            head = data[:end].lower()
            at = head.index(_LENGTH) + len(_LENGTH)
            stop = head.find(b"\r", at)
            if len(data) >= end + 4 + int(head[at : stop if stop > 0 else end]):
                request, self._request, self._held = self._request, -1, b""
                self._answered(self, request, int(head[9:12]))
                return
        self._held = data


class _Load:
    def __init__(self, host: str, port: int, message: bytes, due: list[float]) -> None:
        self._host, self._port, self._message = host, port, message
        self.due = due
        self.sent, self.done = [0.0] * len(due), [0.0] * len(due)
        self.status = [0] * len(due)
        self._next = self._open = 0
        self._free: list[_Connection] = []
        self._waiting: deque[int] = deque()  # due, and no connection is free; bounded by `due`
        self._timer = Timer()
        self._over = asyncio.Event()
        self._began = 0.0
        self._opening: set[asyncio.Task[None]] = set()

    async def run(self, connections: int) -> None:
        for _ in range(connections):
            await self._connect()
        asyncio.get_running_loop().add_reader(self._timer.fd, self._tick)
        self._began = time.monotonic() + _HEAD_START_S
        print(json.dumps({"began": self._began}), flush=True)
        self._timer.set(self._began + self.due[0])
        try:
            async with asyncio.timeout(self.due[-1] + _HEAD_START_S + _LAST_ANSWERS_S):
                await self._over.wait()
        except TimeoutError:
            pass  # those without an answer have status 0
        asyncio.get_running_loop().remove_reader(self._timer.fd)
        self._timer.close()

    async def _connect(self) -> None:
        _, one = await asyncio.get_running_loop().create_connection(
            lambda: _Connection(self._answered, self._lost), self._host, self._port
        )
        self._free_one(one)

    def _tick(self) -> None:
        self._timer.clear()
        due, now = self.due, time.monotonic() - self._began
        while self._next < len(due) and due[self._next] <= now:
            request, self._next = self._next, self._next + 1
            if self._free:
                self._send(self._free.pop(), request)
            else:
                self._waiting.append(request)
        if self._next < len(due):
            self._timer.set(self._began + due[self._next])

    def _send(self, one: _Connection, request: int) -> None:
        self.sent[request] = time.monotonic() - self._began
        one.send(request, self._message)

    def _answered(self, one: _Connection, request: int, status: int) -> None:
        self.done[request] = time.monotonic() - self._began
        self.status[request] = status
        self._open += 1
        if self._open == len(self.due):
            self._over.set()
        if status:
            self._free_one(one)

    def _free_one(self, one: _Connection) -> None:
        if self._waiting:
            self._send(one, self._waiting.popleft())
        else:
            self._free.append(one)

    def _lost(self, one: _Connection) -> None:
        if one in self._free:
            self._free.remove(one)
        if not self._over.is_set():
            again = asyncio.ensure_future(self._connect_again())
            self._opening.add(again)
            again.add_done_callback(self._opening.discard)

    async def _connect_again(self) -> None:
        with contextlib.suppress(OSError):  # a server that is gone: the rest has no answer
            await self._connect()


async def _run(order: dict[str, object]) -> _Load:
    stretches = [Stretch(*one) for one in cast("list[tuple[float, float]]", order["stretches"])]
    due = poisson(stretches, Random(cast("int", order["seed"])))
    load = _Load(
        str(order["host"]), cast("int", order["port"]), b64decode(str(order["message"])), due
    )
    await load.run(cast("int", order["connections"]))
    return load


def main() -> None:
    order = json.load(sys.stdin)
    gc.disable()  # a pause would be charged to the server; what is made here has no cycles
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        load = runner.run(_run(order))
    with Path(order["out"]).open("wb") as file:
        np.savez(file, due=load.due, sent=load.sent, done=load.done, status=load.status)


if __name__ == "__main__":
    main()
