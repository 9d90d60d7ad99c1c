"""The tier put together from a configuration, without sockets."""

import asyncio
import logging
from pathlib import Path

import pytest

from cloud.config import parse
from cloud.monitoring.metrics import Metrics
from cloud.tier import Tier
from tests.cloud.serving.pools import tiny


def test_rules_for_a_model_that_is_not_there_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = parse(
        {
            "models": [{"bundle": str(tiny(tmp_path)), "engine": "onnxruntime"}],
            "state_dir": str(tmp_path / "state"), "reliability": {"tiny": {}, "tinny": {}},
        },
        "test",
    )  # fmt: skip
    config.state_dir.mkdir()

    async def main() -> None:
        tier = Tier(config, Metrics())
        await tier.start()
        await tier.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    told = [r for r in caplog.records if r.message == "reliability_of_no_model"]
    assert [vars(record)["model"] for record in told] == ["tinny"]
