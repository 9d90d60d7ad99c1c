"""The load generator: `python -m cloud.capacity.load.open_loop`, its order on stdin. Linux.

One process that does nothing else. It prints when it begins, and writes what it found as .npz.
"""

import asyncio
import contextlib
import gc
import json
import sys
import time
from collections import deque
from pathlib import Path
from random import Random
from typing import Final

import numpy as np
import uvloop

from cloud.capacity.load.arrivals import poisson
from cloud.capacity.load.client import Connection
from cloud.capacity.load.order import Messages, Order
from cloud.capacity.load.timer import Timer

_HEAD_START_S: Final = 0.2
_RECONNECT_S: Final = 0.05
"""A server that turns connections away must not be stormed."""


class _Load:
    def __init__(self, host: str, port: int, messages: Messages, due: list[float]) -> None:
        self._host, self._port = host, port
        self._next_message = _Next(messages)
        self.due = due
        self.noticed, self.sent, self.done = [0.0] * len(due), [0.0] * len(due), [0.0] * len(due)
        self.status = [0] * len(due)
        self._next = self._ended = 0
        self._free: list[Connection] = []
        self._waiting: deque[int] = deque()  # due, and no connection is free; bounded by `due`
        self._timer = Timer()
        self._over = asyncio.Event()
        self._began = 0.0
        self._opening: set[asyncio.Task[None]] = set()

    async def run(self, connections: int, patience_s: float) -> None:
        """Raises OSError when the server cannot be reached at the start."""
        for _ in range(connections):
            await self._connect()
        asyncio.get_running_loop().add_reader(self._timer.fd, self._tick)
        self._began = time.monotonic() + _HEAD_START_S
        print(json.dumps({"began": self._began}), flush=True)  # noqa: T201  our parent reads it
        if self.due:
            self._timer.set(self._began + self.due[0])
            with contextlib.suppress(TimeoutError):  # those without an answer have status 0
                async with asyncio.timeout(self.due[-1] + _HEAD_START_S + patience_s):
                    await self._over.wait()
        self._over.set()
        asyncio.get_running_loop().remove_reader(self._timer.fd)
        self._timer.close()

    async def _connect(self) -> None:
        _, one = await asyncio.get_running_loop().create_connection(
            lambda: Connection(self._answered, self._lost), self._host, self._port
        )
        self._free_one(one)

    async def _reconnect(self) -> None:
        await asyncio.sleep(_RECONNECT_S)
        with contextlib.suppress(OSError):  # the server is gone, and the figures will say so
            await self._connect()

    def _tick(self) -> None:
        self._timer.clear()
        due, now = self.due, time.monotonic() - self._began
        while self._next < len(due) and due[self._next] <= now:
            request, self._next = self._next, self._next + 1
            self.noticed[request] = now
            if self._free:
                self._send(self._free.pop(), request)
            else:
                self._waiting.append(request)
        if self._next < len(due):
            self._timer.set(self._began + due[self._next])

    def _send(self, one: Connection, request: int) -> None:
        self.sent[request] = time.monotonic() - self._began
        one.send(request, self._next_message(request))

    def _answered(self, one: Connection, request: int, status: int) -> None:
        self.done[request] = time.monotonic() - self._began
        self.status[request] = status
        self._ended += 1
        if self._ended == len(self.due):
            self._over.set()
        if status:
            self._free_one(one)

    def _free_one(self, one: Connection) -> None:
        if self._waiting:
            self._send(one, self._waiting.popleft())
        else:
            self._free.append(one)

    def _lost(self, one: Connection) -> None:
        if one in self._free:
            self._free.remove(one)
        if not self._over.is_set():
            again = asyncio.ensure_future(self._reconnect())
            self._opening.add(again)
            again.add_done_callback(self._opening.discard)


class _Next:
    """The bytes of each request in turn."""

    def __init__(self, messages: Messages) -> None:
        self._each, self._vary = messages.each, messages.vary
        self._patched = bytearray(messages.each[0]) if messages.vary else bytearray()

    def __call__(self, request: int) -> bytes:
        if not self._vary:
            return self._each[request % len(self._each)]
        patched = self._patched
        for at in self._vary:
            patched[at] = request & 0xFF
            request >>= 8
        return bytes(patched)


async def _run(order: Order) -> _Load:
    due = poisson(order.stretches, Random(order.seed))  # noqa: S311  arrivals, no secrets
    load = _Load(order.host, order.port, order.messages, due)
    await load.run(order.connections, order.patience_s)
    return load


def main() -> None:
    order = Order.parse(sys.stdin.read())
    gc.disable()  # a pause would be charged to the server; what is made here has no cycles
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            load = runner.run(_run(order))
    except OSError as error:
        sys.exit(f"{order.host}:{order.port}: {error}")
    with Path(order.out).open("wb") as file:
        np.savez(
            file, due=load.due, noticed=load.noticed, sent=load.sent, done=load.done,
            status=load.status,
        )  # fmt: skip


if __name__ == "__main__":
    main()
