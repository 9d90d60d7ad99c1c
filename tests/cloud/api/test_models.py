"""What the model routes say that no client library reads back."""

import asyncio
from pathlib import Path

from cloud.api.models import model_config
from cloud.serving.pool import ModelPool
from cloud.serving.settings import Batching, ModelSettings, PoolSettings
from tests.cloud.serving.pools import tiny


def test_the_configuration_has_the_batches_of_this_model_and_not_of_all(tmp_path: Path) -> None:
    bundle = tiny(tmp_path)

    async def main() -> None:
        pool = ModelPool(
            [ModelSettings(bundle=bundle, engine="onnxruntime")], pool=PoolSettings(),
            batching=Batching(size_max=8), cache_dir=tmp_path,
        )  # fmt: skip
        await pool.start()
        wide = Batching(size_max=64, preferred=(4, 8, 64), wait_ms_max=2)
        config = model_config(pool.find(pool.served[0].name), wide)
        assert config.max_batch_size == 8
        assert config.dynamic_batching.preferred_batch_size == (4, 8)
        assert config.dynamic_batching.max_queue_delay_microseconds == 2000
        await pool.close()

    asyncio.run(main())
