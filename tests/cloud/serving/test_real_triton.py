"""A worker's pool over a real Triton: golden samples, load, its death and return."""

import asyncio
import time
from pathlib import Path

import numpy as np
import pytest

from cloud.serving.settings import ModelSettings, TritonSettings
from shared.bundle.reader import open_bundle
from shared.errors import Disconnected, Unavailable
from tests.cloud.serving.pools import FASHION_CLOUD, play, running
from tests.cloud.serving.real_triton import RealTriton, triton, why_not

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(why_not() is not None, reason=why_not() or "it is here"),
]
REQUESTS = 2000


def settings(server: RealTriton) -> ModelSettings:
    return ModelSettings(
        bundle=FASHION_CLOUD, engine="triton",
        triton=TritonSettings(url=server.url, concurrency=4, timeout_s=5.0),
    )  # fmt: skip


def test_a_pool_over_triton_answers_as_the_reference_survives_its_death_and_recovers(
    tmp_path: Path,
) -> None:
    golden = open_bundle(FASHION_CLOUD).golden

    async def scenario(server: RealTriton) -> None:
        async with running(settings(server)) as pool:
            served = pool.find("fashion-cloud")
            assert served.model.variant == "triton/fp32"
            assert served.model.size_max == 8  # the pool's; Triton would take 16
            batcher = served.batcher
            began = time.monotonic()
            asked = [batcher.infer(golden.inputs[n % 64][None], 1e12) for n in range(REQUESTS)]
            ran = await asyncio.gather(*asked)
            print(f"{REQUESTS / (time.monotonic() - began):.0f} requests/s")
            logits = np.concatenate([each.outputs.logits for each in ran])
            wanted = np.concatenate([golden.outputs] * (REQUESTS // 64 + 1))[:REQUESTS]
            assert np.abs(logits - wanted).max() < 0.01

            await asyncio.to_thread(server.kill)
            lost = await asyncio.gather(
                *(batcher.infer(golden.inputs[:1], 1e12) for _ in range(8)),
                return_exceptions=True,
            )
            assert {type(error) for error in lost} == {Disconnected}
            await asyncio.to_thread(server.start)
            again = await batcher.infer(golden.inputs[:3], 1e12)
            assert np.abs(again.outputs.logits - golden.outputs[:3]).max() < 0.01

    with triton(tmp_path, FASHION_CLOUD, "onnxruntime/fp32") as server:
        play(lambda: scenario(server), 300)


def test_int8_behind_triton_is_known_by_its_answers(tmp_path: Path) -> None:
    async def scenario(server: RealTriton) -> None:
        async with running(settings(server)) as pool:
            assert pool.find("fashion-cloud").model.variant == "triton/int8"
            wrong = TritonSettings(url=server.url, model="nobody")
            model = ModelSettings(bundle=FASHION_CLOUD, engine="triton", triton=wrong)
            with pytest.raises(Unavailable, match="nobody"):
                async with running(model):
                    pass

    with triton(tmp_path, FASHION_CLOUD, "onnxruntime/int8") as server:
        play(lambda: scenario(server), 300)
