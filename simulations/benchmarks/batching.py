"""Samples/s through the cloud's batcher with many clients against the model alone at batch 32."""

import asyncio
import time

import numpy as np

from cloud.serving.pool import ModelPool
from cloud.serving.settings import Batching, ModelSettings, PoolSettings
from simulations.benchmarks.report import ROUNDS, Row, medians
from simulations.benchmarks.setting import Setting, bare_session

_SAMPLES = 3_200
_CLIENTS = 128
_BATCH = 32


async def measure(setting: Setting) -> list[Row]:
    images = setting.images[np.arange(_SAMPLES) % len(setting.images)]
    run = bare_session(setting.cloud_bundle)

    def bare() -> float:
        started = time.perf_counter()
        for first in range(0, _SAMPLES, _BATCH):
            run(images[first : first + _BATCH])
        return _SAMPLES / (time.perf_counter() - started)

    settings = ModelSettings(bundle=setting.cloud_bundle, engine="onnxruntime")
    pool = ModelPool(
        [settings], pool=PoolSettings(), batching=Batching(size_max=_BATCH),
        cache_dir=setting.folder,
    )  # fmt: skip
    await pool.start()
    batcher = pool.served[0].batcher

    async def client(part: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> None:
        for image in part:
            await batcher.infer(image[None], time.monotonic() + 60)

    async def ours() -> float:
        started = time.perf_counter()
        await asyncio.gather(*(client(images[n::_CLIENTS]) for n in range(_CLIENTS)))
        return _SAMPLES / (time.perf_counter() - started)

    await ours()
    bare()
    pairs = [(await ours(), bare()) for _ in range(ROUNDS)]
    await pool.close()
    value, floor, ratio = medians(pairs)
    return [Row("cloud, batched", value, "bare onnxruntime, batch 32", floor, "samples/s", ratio, ">=", 0.8)]  # fmt: skip
