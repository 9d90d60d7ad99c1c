"""A subscriber of all telemetry that only acknowledges, in a process of its own, as a fleet is."""

import asyncio
import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event

from cloud.broker.codec import packets as p
from cloud.broker.codec.encode import encode
from cloud.broker.codec.parser import Parser
from cloud.broker.codec.properties import PropertyId
from shared.topics import TELEMETRY

_RECEIVE_MAX = 2000
_START_S = 30.0


@contextmanager
def acknowledging(address: tuple[str, int]) -> Iterator[Callable[[], float]]:
    """Gives how many it has acknowledged; its subscription is granted before."""
    spawn = multiprocessing.get_context("spawn")
    count, ready = spawn.Value("q", 0), spawn.Event()
    process = spawn.Process(target=_run, args=(*address, count, ready), daemon=True)
    process.start()
    try:
        if not ready.wait(_START_S):
            raise TimeoutError("the subscriber that only acknowledges did not start")
        yield lambda: float(count.value)
    finally:
        process.terminate()
        process.join()


def _run(host: str, port: int, count: "Synchronized[int]", ready: Event) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        _, one = await loop.create_connection(lambda: _Acknowledger(count, ready), host, port)
        await one.lost

    asyncio.run(main())


class _Acknowledger(asyncio.Protocol):
    def __init__(self, count: "Synchronized[int]", ready: Event) -> None:
        self._parser = Parser(1 << 20, p.Version.V5)
        self._count, self._ready = count, ready
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        found = ((PropertyId.RECEIVE_MAXIMUM, _RECEIVE_MAX),)
        transport.write(encode(p.Connect("floor", properties=found)))

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.lost.set_result(None)

    def data_received(self, data: bytes) -> None:
        out, taken = bytearray(), 0
        for packet in self._parser.feed(data):
            match packet:
                case p.Publish(packet_id=packet_id):
                    taken += 1
                    out += encode(p.Puback(packet_id))
                case p.Connack(reason=0):
                    one = p.Subscription(TELEMETRY, 1)
                    out += encode(p.Subscribe(1, (one,)))
                case p.Suback():
                    self._ready.set()
                case _:
                    raise ConnectionError(str(packet))
        self._count.value += taken  # it alone writes
        if out:
            self._transport.write(bytes(out))
