"""An innocent pair of clients: what one publishes the other must get, all the time."""

import asyncio
import time
from random import Random
from typing import Final

from cloud.broker.codec import packets as p
from cloud.broker.codec.encode import encode
from simulations.broker_chaos.broker_process import HOST
from simulations.broker_fuzz.wire import Wire

LATENCY_S_MAX: Final = 10.0
"""A machine that is busy may be slow; a broker that hangs is slower."""
PERIOD_S: Final = 0.02
TOPIC: Final = "canary/sings"


class Canary:
    """Counts what came through and how long it took."""

    def __init__(self, port: int) -> None:
        """Prepare for a broker."""
        self._port = port
        self.messages = 0
        self.latency_s_max = 0.0

    async def run(self, ends_at: float) -> None:
        """Publish and expect; raises `Wrong` when a message is late or a connection ends."""
        rng = Random(0)
        publisher = await Wire.connect(HOST, self._port)
        subscriber = await Wire.connect(HOST, self._port)
        try:
            await _join(publisher, "canary-p", rng)
            await _join(subscriber, "canary-s", rng)
            wanted = p.Subscribe(1, (p.Subscription(TOPIC, 1),))
            await subscriber.send(encode(wanted), rng)
            await subscriber.until(p.Suback, LATENCY_S_MAX)
            while time.monotonic() < ends_at:
                await self._sing(publisher, subscriber, rng)
                await asyncio.sleep(PERIOD_S)
        finally:
            await publisher.abort()
            await subscriber.abort()

    async def _sing(self, publisher: Wire, subscriber: Wire, rng: Random) -> None:
        began = time.monotonic()
        packet_id = self.messages % 60_000 + 1
        await publisher.send(encode(p.Publish(TOPIC, b"x", 1, packet_id=packet_id)), rng)
        await publisher.until(p.Puback, LATENCY_S_MAX)
        got = await subscriber.until(p.Publish, LATENCY_S_MAX)
        assert isinstance(got, p.Publish)
        await subscriber.send(encode(p.Puback(got.packet_id)), rng)
        subscriber.view.in_flight.discard(got.packet_id)
        self.messages += 1
        self.latency_s_max = max(self.latency_s_max, time.monotonic() - began)


async def _join(wire: Wire, client_id: str, rng: Random) -> None:
    await wire.send(encode(p.Connect(client_id)), rng)
    await wire.until(p.Connack, LATENCY_S_MAX)
