"""As many QoS 1 messages as go through: windows of publishers against one or more subscribers."""

import asyncio
import contextlib
import os
import time
from typing import Final

from simulations.broker_bench import process
from simulations.broker_bench.connections import Gate, Publisher, Subscriber, connect_all
from simulations.broker_bench.loads import Broker, Found, Load
from simulations.broker_bench.wire import Ring, Shape, topic

WARM_UP_S: Final = 0.4
UNDELIVERED_BYTES_MAX: Final = 32 * 1_048_576
"""Half of what the brokers may queue here, so that neither has a reason to drop."""
DRAIN_S_MAX: Final = 5.0


async def measure(load: Load, broker: Broker) -> Found:
    """Run warm up, measured time and drain; a message counts when a subscriber has it."""
    shape = Shape.of(load.payload_bytes)
    gate = Gate(
        min(
            max(load.publishers, UNDELIVERED_BYTES_MAX // shape.packet_bytes),
            load.publishers * load.window,
        )
    )
    drained = asyncio.Event()
    delivered = 0

    def on_messages(count: int) -> None:
        nonlocal delivered
        delivered += count
        gate.leave(count)
        if not gate.is_open and delivered + gate.refused >= gate.published:
            drained.set()

    topic_filter = "$share/bench/bench/+" if load.consumers > 1 else "bench/+"
    payload = os.urandom(load.payload_bytes)

    def subscriber(at: int) -> Subscriber:
        return Subscriber(f"sub-{at}", topic_filter, shape, on_messages, load.session_expiry_s)

    def publisher(at: int) -> Publisher:
        return Publisher(f"pub-{at}", Ring(topic(at), payload, load.window), gate)

    subscribers = await connect_all(broker, load.consumers, subscriber)
    publishers = await connect_all(broker, load.publishers, publisher)
    for one in publishers:
        one.publish()
    await asyncio.sleep(WARM_UP_S)
    before, started = delivered, time.perf_counter()
    broker_s, clients_s = process.cpu_s(broker.pid), time.process_time()
    shares = [each.delivered for each in subscribers]
    await asyncio.sleep(load.measured_s)
    count, took_s = delivered - before, time.perf_counter() - started
    broker_s, clients_s = process.cpu_s(broker.pid) - broker_s, time.process_time() - clients_s
    shares = [each.delivered - was for each, was in zip(subscribers, shares, strict=True)]
    gate.is_open = False
    with contextlib.suppress(TimeoutError):  # then it is lost, and counted
        async with asyncio.timeout(DRAIN_S_MAX):
            await drained.wait()
    lost = gate.published - gate.refused - delivered
    for client in (*publishers, *subscribers):
        client.leave()
    us_each = 1e6 / max(1, count)
    return Found(
        count / took_s, broker_s * us_each, clients_s * us_each, gate.refused, lost, tuple(shares)
    )
