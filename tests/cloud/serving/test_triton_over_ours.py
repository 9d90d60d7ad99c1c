"""A pool whose engine is another server of this program: the real client, seam and server."""

import asyncio
from pathlib import Path

import numpy as np
import pytest

from cloud.serving.settings import ModelSettings, TritonSettings
from shared.errors import Unavailable
from tests.cloud.api.servers import MODEL, bundles, lanes, server
from tests.cloud.serving.pools import play, running
from tests.tiny_bundle import sure_image, tiny_logits

IMAGES = np.stack([sure_image(n % 3) for n in range(16)])


@lanes
def test_a_pool_over_our_own_server_answers_as_that_does(tmp_path: Path, lane: str) -> None:
    bundle, *_ = bundles(tmp_path)

    with server(tmp_path, lane) as there:
        remote = ModelSettings(
            bundle=bundle, engine="triton",
            triton=TritonSettings(url=there.url, version="1.0.0", concurrency=4),
        )  # fmt: skip

        async def scenario() -> None:
            async with running(remote) as pool:
                served = pool.find(MODEL)
                assert served.model.variant == "triton/fp32"
                asked = [served.batcher.infer(IMAGES[n % 16][None], 1e12) for n in range(300)]
                ran = await asyncio.gather(*asked)
                logits = np.concatenate([each.outputs.logits for each in ran])
                wanted = np.concatenate([tiny_logits(IMAGES, shift=1)] * 19)[:300]
                assert np.allclose(logits, wanted, atol=1e-5)

        play(scenario)


def test_what_our_own_server_refuses_is_refused_here(tmp_path: Path) -> None:
    bundle, other, _ = bundles(tmp_path)

    async def scenario(url: str, path: Path, **settings: object) -> None:
        triton = TritonSettings.model_validate({"url": url, **settings})
        async with running(ModelSettings(bundle=path, engine="triton", triton=triton)):
            pass

    with server(tmp_path) as there:
        with pytest.raises(Unavailable, match="said 404"):
            play(lambda: scenario(there.url, bundle, model="nobody"))
        with pytest.raises(Unavailable, match="said 404"):
            play(lambda: scenario(there.url, bundle, version="7.0.0"))
        with pytest.raises(Unavailable, match="answers otherwise than the reference"):
            play(lambda: scenario(there.url, other, model=MODEL))
