"""What connections that stand still cost: a subscriber that does not read, and thousands idle."""

import asyncio
import os
import time
from typing import Final

from simulations.broker_bench import process
from simulations.broker_bench.connections import Gate, Idler, Publisher, Subscriber, connect_all
from simulations.broker_bench.loads import Broker, Found, Load
from simulations.broker_bench.wire import Ring, Shape, topic

TIMEOUT_S: Final = 60.0


def _ignore(count: int) -> None:
    del count


async def slow_reader(load: Load, broker: Broker) -> Found:
    """Publish to a subscriber that reads nothing, until all is acknowledged or refused."""
    shape = Shape.of(load.payload_bytes)
    gate = Gate(load.publishers * load.messages)
    payload = os.urandom(load.payload_bytes)

    def publisher(at: int) -> Publisher:
        return Publisher(f"pub-{at}", Ring(topic(at), payload, load.messages), gate)

    (subscriber,) = await connect_all(
        broker, 1, lambda _: Subscriber("slow", "bench/+", shape, _ignore)
    )
    subscriber.transport.pause_reading()
    publishers = await connect_all(broker, load.publishers, publisher)
    process.reset_peak(broker.pid)
    started = time.perf_counter()
    for one in publishers:
        one.publish()
    gate.is_open = False
    async with asyncio.timeout(TIMEOUT_S):
        await gate.settled.wait()
    took_s = time.perf_counter() - started
    peak_mb = process.peak_resident_mb(broker.pid)
    for client in (*publishers, subscriber):
        client.abort()
    return Found(peak_mb=peak_mb, refused=gate.refused, seconds=took_s)


async def idle(load: Load, broker: Broker) -> Found:
    """Open connections, ping all of them, and send one message while they are open."""
    answered = 0
    all_answered, arrived = asyncio.Event(), asyncio.Event()

    def on_answer() -> None:
        nonlocal answered
        answered += 1
        if answered == load.publishers:
            all_answered.set()

    def on_messages(count: int) -> None:
        del count
        arrived.set()

    before_mb, started = process.resident_mb(broker.pid), time.perf_counter()
    idlers = await connect_all(broker, load.publishers, lambda at: Idler(f"idle-{at}", on_answer))
    took_s = time.perf_counter() - started
    held_mb = process.resident_mb(broker.pid) - before_mb
    for one in idlers:
        one.ping()
    shape = Shape.of(load.payload_bytes)
    ring = Ring(topic(0), os.urandom(load.payload_bytes), 1)
    (subscriber,) = await connect_all(
        broker, 1, lambda _: Subscriber("sub", "bench/+", shape, on_messages)
    )
    (publisher,) = await connect_all(broker, 1, lambda _: Publisher("pub", ring, Gate(1)))
    publisher.publish()
    async with asyncio.timeout(TIMEOUT_S):
        await all_answered.wait()
        await arrived.wait()
    for client in (*idlers, publisher, subscriber):
        client.leave()
    return Found(
        connected=len(idlers), answered=answered, seconds=took_s,
        kb_per_connection=held_mb * 1024 / load.publishers,
    )  # fmt: skip
