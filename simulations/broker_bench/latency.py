"""Publisher to subscriber at a fixed rate, an open loop: a slow answer delays no later message."""

import asyncio
import os
import statistics
import time
from collections import deque
from typing import Final

from simulations.broker_bench.connections import TIMEOUT_S, Gate, Publisher, Subscriber, connect_all
from simulations.broker_bench.loads import Found, Load
from simulations.broker_bench.wire import Ring, Shape, topic

WARM_UP_S: Final = 0.5


async def measure(load: Load, host: str, port: int, pid: int) -> Found:
    """Time each message on this process's clock, from its write to its whole arrival.

    One publisher and one subscriber keep their order, so the n-th to come is the n-th sent.
    """
    del pid
    clock = time.perf_counter
    sent: deque[float] = deque()
    took_s: list[float] = []
    all_arrived = asyncio.Event()
    wanted = round((WARM_UP_S + load.measured_s) * load.per_second)

    def on_messages(count: int) -> None:
        now = clock()
        took_s.extend(now - sent.popleft() for _ in range(count))
        if len(took_s) == wanted:
            all_arrived.set()

    shape = Shape.of(load.payload_bytes)
    ring = Ring(topic(0), os.urandom(load.payload_bytes), load.window)
    (subscriber,) = await connect_all(
        host, port, 1,
        lambda _: Subscriber("sub", "bench/+", shape, on_messages, load.session_expiry_s),
    )  # fmt: skip
    (publisher,) = await connect_all(host, port, 1, lambda _: Publisher("pub", ring, Gate(0)))
    started = clock()
    for index in range(wanted):
        await asyncio.sleep(max(0.0, started + index / load.per_second - clock()))
        sent.append(clock())
        publisher.transport.writelines(ring.take(1))
    async with asyncio.timeout(TIMEOUT_S):
        await all_arrived.wait()
    for one in (publisher, subscriber):
        one.leave()
    measured = took_s[round(WARM_UP_S * load.per_second) :]
    cuts = statistics.quantiles(measured, n=100)
    return Found(p50_ms=cuts[49] * 1e3, p99_ms=cuts[98] * 1e3)
