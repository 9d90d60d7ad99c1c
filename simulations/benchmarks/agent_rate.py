"""Samples/s through the agent against the model alone, and what counting takes of that.

The agent's way: model, confidence, routing, counting as in a fleet, encoding of what escalates,
outbox and answers on disk. The link is down, so nothing leaves; the local API is not in it.
"""

import asyncio
import time
from statistics import median

import numpy as np
from numpy.typing import NDArray

from edge.answers import Sample
from edge.routing.novelty import NoveltyWatch
from edge.routing.settings import Budget, Novelty
from edge.telemetry.sketching import Sketching
from edge.telemetry.tally import VersionTally
from shared.bundle.manifest import Manifest
from shared.confidence import label_and_confidence
from shared.new_ids import new_sample_id
from simulations.benchmarks.report import ROUNDS, Row, medians
from simulations.benchmarks.setting import Setting, agent_here, bare_session

_SAMPLES = 4_000
_CHUNK = 64
COUNTING_US_MAX = 1.0
"""Microseconds of the event loop: a hundredth of what a small model takes. Its own processor time, so
that others on the machine are not in it; in a loop of its own, which is what an agent comes near to
that judges a turn's samples together.
"""

WATCHING_US_MAX = 3.0
"""On average while all is calm; sketches for the fleet are in it."""


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
        agent.count()

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
        counting_us = median(_counting_us(agent.manifest, images) for _ in range(ROUNDS))
        temperature = agent.manifest.calibration.temperature
        said = [label_and_confidence(agent.slot.logits(one), temperature) for one in images]
        watching_us = median(_watching_us(agent.manifest, images, said) for _ in range(ROUNDS))
        journal.drain()
        await writing
    value, floor, ratio = medians(pairs)
    return [
        Row("agent, batch 1", value, "bare onnxruntime", floor, "samples/s", ratio, ">=", 0.6),
        Row(
            "counting a sample", counting_us, "target", COUNTING_US_MAX, "us",
            counting_us / COUNTING_US_MAX, "<=", 1.0,
        ),
        Row(
            "watching for novelty, a sample", watching_us, "target", WATCHING_US_MAX, "us",
            watching_us / WATCHING_US_MAX, "<=", 1.0,
        ),
    ]  # fmt: skip


def _counting_us(manifest: Manifest, images: list[NDArray[np.uint8]]) -> float:
    tally = VersionTally(manifest, 0.0)
    started = time.thread_time()
    for at in range(len(images)):
        tally.judged(at % 10, 0.97, "accepted", 0.0, 0.1)
    return (time.thread_time() - started) / len(images) * 1e6


def _watching_us(
    manifest: Manifest, images: list[NDArray[np.uint8]], said: list[tuple[int, float]]
) -> float:
    """With the model's own answers: of others it would soon say that they are novel."""
    watch = NoveltyWatch(Sketching(manifest.reference), Novelty(), Budget(), 0.01, 0.0)
    started = time.thread_time()
    for at, (image, answer) in enumerate(zip(images, said, strict=True)):
        if watch.said(*answer):
            watch.look(image, at / 100)
    return (time.thread_time() - started) / len(images) * 1e6
