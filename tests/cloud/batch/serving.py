"""A real pool with the tiny cloud model, and the inference core over it."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry

from cloud.serving.caches.result_cache import ResultCache
from cloud.serving.caches.settings import ResultCacheSettings
from cloud.serving.inference import Inference
from cloud.serving.pool import ModelPool
from cloud.serving.reliability_metrics import ReliabilityMetrics
from tests.cloud.batch.images import tiny_bundle
from tests.cloud.serving.pools import running


@dataclass
class Serving:
    pool: ModelPool
    inference: Inference
    registry: CollectorRegistry

    def count(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(f"hybridge_nearline_{name}", labels) or 0.0


@asynccontextmanager
async def serving(folder: Path, bundle: Path | None = None) -> AsyncGenerator[Serving]:
    """With the tiny cloud model, unless another is named; without a cache."""
    registry = CollectorRegistry()
    async with running(bundle or tiny_bundle(folder)) as pool:
        cache = ResultCache(ResultCacheSettings(policy="off"))
        yield Serving(pool, Inference({}, cache, ReliabilityMetrics(registry)), registry)


_LOOK_S = 0.005


async def until(true: Callable[[], bool]) -> None:
    """Raises `TimeoutError` after a minute.

    Between two looks the loop is idle: one that spins keeps the interpreter's lock from the window's
    threads, for milliseconds at each of their steps, and windows end late.
    """
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110  conditions of many kinds
            await asyncio.sleep(_LOOK_S)
