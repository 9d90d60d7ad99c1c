"""Publisher to subscriber at a fixed rate, an open loop: a slow answer delays no later message."""

import asyncio
import os
import statistics
import time
from collections import deque
from collections.abc import Sequence
from typing import Final

from simulations.broker_bench.connections import TIMEOUT_S, Gate, Publisher, Subscriber, connect_all
from simulations.broker_bench.loads import Broker, Found, Load
from simulations.broker_bench.wire import Ring, Shape, topic

WARM_UP_S: Final = 0.5


class _Probe:
    """One publisher and one subscriber: they keep their order, so the n-th to come is the n-th sent."""

    def __init__(self, load: Load, wanted: int) -> None:
        self._load = load
        self._ring = Ring(topic(0), os.urandom(load.payload_bytes), load.window)
        self._sent: deque[float] = deque()
        self._wanted = wanted
        self.took_s: list[float] = []
        self.all_arrived = asyncio.Event()

    async def connect(self, broker: Broker) -> None:
        shape = Shape.of(self._load.payload_bytes)
        (self._subscriber,) = await connect_all(
            broker, 1,
            lambda _: Subscriber(
                "sub", "bench/+", shape, self._on_messages, self._load.session_expiry_s
            ),
        )  # fmt: skip
        (self._publisher,) = await connect_all(
            broker, 1, lambda _: Publisher("pub", self._ring, Gate(0))
        )

    def send(self) -> None:
        self._sent.append(time.perf_counter())
        self._publisher.transport.writelines(self._ring.take(1))

    def leave(self) -> None:
        self._publisher.leave()
        self._subscriber.leave()

    def _on_messages(self, count: int) -> None:
        now = time.perf_counter()
        self.took_s.extend(now - self._sent.popleft() for _ in range(count))
        if len(self.took_s) == self._wanted:
            self.all_arrived.set()


async def measure(load: Load, brokers: Sequence[Broker]) -> list[Found]:
    """Time each message on this process's clock, from its write to its whole arrival.

    The brokers get a message each in turn, half a period apart where they are two: whatever else
    this machine does at the time delays both.
    """
    count = round((WARM_UP_S + load.measured_s) * load.per_second)
    probes = [_Probe(load, count) for _ in brokers]
    for probe, broker in zip(probes, brokers, strict=True):
        await probe.connect(broker)
    started = time.perf_counter()
    for index in range(count * len(probes)):
        due_at = started + index / (load.per_second * len(probes))
        await asyncio.sleep(max(0.0, due_at - time.perf_counter()))
        probes[index % len(probes)].send()
    for probe in probes:
        async with asyncio.timeout(TIMEOUT_S):
            await probe.all_arrived.wait()
        probe.leave()
    return [_found(probe.took_s[round(WARM_UP_S * load.per_second) :]) for probe in probes]


def _found(took_s: list[float]) -> Found:
    cuts = statistics.quantiles(took_s, n=100)
    return Found(p50_ms=cuts[49] * 1e3, p99_ms=cuts[98] * 1e3)
