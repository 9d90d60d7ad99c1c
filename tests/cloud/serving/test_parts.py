"""A call of more rows than one batch: whole or not at all, and refused for what it is."""

import asyncio
import time
from pathlib import Path

import numpy as np
import pytest

from cloud.serving.awaited import Awaited
from cloud.serving.batch_rules import BatchRules
from cloud.serving.batcher import Batcher
from cloud.serving.job import Calibrated, Outputs, Rows
from cloud.serving.latency_curve import LatencyCurve
from cloud.serving.parts import submit_in_parts
from cloud.serving.pool import ModelPool
from cloud.serving.settings import Batching, ModelSettings, PoolSettings
from shared.errors import DeadlineMissed, Overloaded
from tests.cloud.inference import plain_inference
from tests.cloud.serving.pools import tiny


def rows(count: int) -> Rows:
    return np.arange(count, dtype=np.float32)[:, None]


def batcher(**rules: object) -> Batcher:
    def predict(parts: list[Rows]) -> Outputs:
        whole = np.concatenate(parts)
        return Outputs(whole, Calibrated(whole, 1.0))

    return Batcher(
        predict, LatencyCurve({1: 0.001, 4: 0.004}), rules=BatchRules(size_max=4, **rules)
    )  # type: ignore[arg-type]


def test_the_parts_come_back_in_their_order() -> None:
    async def scenario() -> None:
        one = batcher()
        job = Awaited(rows(10), time.monotonic() + 5)
        submit_in_parts(job, 4, one.submit)
        ran = await job.done
        assert ran.outputs.logits[:, 0].tolist() == list(range(10))
        await one.drain()

    asyncio.run(scenario())


def test_a_part_that_is_not_admitted_takes_the_others_along() -> None:
    async def scenario() -> None:
        one = batcher(depth_max=8)
        job = Awaited(rows(10), time.monotonic() + 5)
        with pytest.raises(Overloaded):
            submit_in_parts(job, 4, one.submit)
        await one.drain()
        assert not job.done.done()
        assert one.busy_s == 0.0

    asyncio.run(scenario())


def test_more_rows_than_anybody_has_time_for_are_not_told_to_come_again(tmp_path: Path) -> None:
    batching = Batching(size_max=4, p99_ms=0.001)

    async def scenario() -> None:
        pool = ModelPool(
            [ModelSettings(bundle=tiny(tmp_path))], pool=PoolSettings(), batching=batching,
            cache_dir=tmp_path,
        )  # fmt: skip
        await pool.start()
        images = np.zeros((64, 4, 4), np.uint8)
        with pytest.raises(DeadlineMissed, match=r"64 rows take .* by themselves"):
            await plain_inference().answer(pool.find("tiny"), images, time.monotonic() + 5)
        await pool.close()

    asyncio.run(scenario())
