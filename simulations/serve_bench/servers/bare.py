"""Floor and ceiling: this design without its duties, and an echo without a model.

`python -m simulations.serve_bench.servers.bare model|echo`: an `asyncio.Protocol` on uvloop that
finds the body by hand, no routes, no authentication, no validation, no metrics, no log, no limits.
"model" collects what one poll of the loop brought and runs it inline as one batch; "echo" answers
40 zeros. Processes share the port (SO_REUSEPORT).
"""

import asyncio
import os
import socket
import sys
from collections.abc import Callable
from typing import Final, Protocol, cast

import numpy as np
import uvloop

from simulations.serve_bench.servers.session import ANSWER_BYTES, Session, port, workers

BATCH_ROWS_MAX: Final = 16
SAMPLE_BYTES: Final = 3_136
_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\ncontent-length: 40\r\n\r\n"
)
_LENGTH: Final = b"\r\ncontent-length:"
Write = Callable[[bytes], None]


class Takes(Protocol):
    def take(self, body: memoryview, write: Write) -> None: ...


class Echo:
    def take(self, _: memoryview, write: Write) -> None:
        write(_HEAD + bytes(ANSWER_BYTES))


class Batches:
    """The first request of a poll arms the flush; the others of that poll join it."""

    def __init__(self) -> None:
        self._session = Session()
        self._loop = asyncio.get_running_loop()
        self._waiting: list[tuple[memoryview, Write]] = []
        self._rows = np.empty((BATCH_ROWS_MAX, 1, 28, 28), np.float32)
        self._flat = self._rows.data.cast("B")

    def take(self, body: memoryview, write: Write) -> None:
        self._waiting.append((body, write))
        if len(self._waiting) == 1:
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        batch, self._waiting = self._waiting[:BATCH_ROWS_MAX], self._waiting[BATCH_ROWS_MAX:]
        for at, (body, _) in enumerate(batch):
            self._flat[at * SAMPLE_BYTES : (at + 1) * SAMPLE_BYTES] = body
        y = self._session.run(self._rows[: len(batch)]).data.cast("B")
        for at, (_, write) in enumerate(batch):
            write(_HEAD + y[at * ANSWER_BYTES : (at + 1) * ANSWER_BYTES])
        if self._waiting:
            self._loop.call_soon(self._flush)


class Connection(asyncio.Protocol):
    def __init__(self, takes: Takes) -> None:
        self._takes = takes
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)  # uvloop's have no such base

    def data_received(self, data: bytes) -> None:
        data = self._rest + data if self._rest else data
        while (end := data.find(b"\r\n\r\n")) >= 0:
            head = data[:end].lower()
            at = head.find(_LENGTH) + len(_LENGTH)
            stop = head.find(b"\r", at)
            whole = end + 4 + int(head[at : stop if stop > 0 else end])
            if len(data) < whole:
                break
            self._takes.take(memoryview(data)[end + 4 : whole], self._write)
            data = data[whole:]
        self._rest = data

    def _write(self, answer: bytes) -> None:
        if not self._transport.is_closing():  # uvloop raises; its batch mates would starve
            self._transport.write(answer)


async def _serve(listener: socket.socket, kind: str) -> None:
    takes: Takes = Echo() if kind == "echo" else Batches()
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(takes), sock=listener
    )
    await server.serve_forever()


def _listener() -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind(("127.0.0.1", port()))
    listener.listen(1024)
    listener.setblocking(False)
    return listener


def main() -> None:
    for _ in range(workers() - 1):
        if os.fork() == 0:
            break
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(_listener(), sys.argv[1]))


if __name__ == "__main__":
    main()
