"""Samples/s through the agent against the model alone.

The agent's way: model, confidence, routing, encoding of what escalates, outbox and answers on
disk. The link is down, so nothing leaves; the local API is not in it.
"""

import asyncio
import time

from edge.answers import Sample
from shared.new_ids import new_sample_id
from simulations.benchmarks.report import ROUNDS, Row, medians
from simulations.benchmarks.setting import Setting, agent_here, bare_session

_SAMPLES = 4_000
_CHUNK = 64


async def measure(setting: Setting) -> list[Row]:
    images = [setting.images[i % len(setting.images)] for i in range(_SAMPLES)]
    run = bare_session(setting.edge_bundle)

    def bare() -> float:
        started = time.perf_counter()
        for image in images:
            run(image[None])
        return _SAMPLES / (time.perf_counter() - started)

    async with agent_here(setting, "bench-rate", "mqtt://127.0.0.1:1", {}) as (agent, journal):
        writing = asyncio.create_task(journal.run())

        async def ours() -> float:
            started = time.perf_counter()
            for first in range(0, _SAMPLES, _CHUNK):
                chunk = images[first : first + _CHUNK]
                now, arrived = time.time(), time.monotonic()
                await agent.take([Sample(new_sample_id(), image, now, arrived) for image in chunk])
            await journal.durable()
            return _SAMPLES / (time.perf_counter() - started)

        await ours()
        bare()
        pairs = [(await ours(), bare()) for _ in range(ROUNDS)]
        journal.drain()
        await writing
    value, floor, ratio = medians(pairs)
    return [Row("agent, batch 1", value, "bare onnxruntime", floor, "samples/s", ratio, ">=", 0.6)]
