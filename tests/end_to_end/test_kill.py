"""kill -9 of each process mid-stream: every sample ends with one answer or one ledger line."""

import asyncio
from pathlib import Path

import pytest

from tests.end_to_end.region import SAMPLES, Region, whereabouts

_THIRD = SAMPLES // 3


@pytest.mark.parametrize("victim", ["agent", "cloud", "broker"])
def test_every_sample_is_settled_exactly_once(victim: str, tmp_path: Path) -> None:
    asyncio.run(_scenario(Region(tmp_path), victim))
    settled, waiting = whereabouts(tmp_path / "agent")
    assert waiting == 0
    assert len(settled) == SAMPLES
    assert set(settled.values()) == {1}


async def _scenario(region: Region, victim: str) -> None:
    region.prepare()
    try:
        for name in ("broker", "cloud", "agent"):
            await region.up(name)
        await region.until(lambda now: now["answered"] >= _THIRD, within_s=30)
        await region.kill(victim)
        if victim != "agent":  # the agent goes on meanwhile and its outbox fills
            await region.until(lambda now: now["outbox"] >= 20, within_s=30)
        await region.up(victim)
        await region.until(lambda now: now["answered"] + now["lost"] == SAMPLES, within_s=60)
    finally:
        await region.down()
