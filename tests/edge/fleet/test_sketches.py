"""What a region hears of inputs unlike the reference."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from cloud.broker.launch import BrokerAddress
from edge.fleet.settings import FleetSettings
from shared.fleet.telemetry import Telemetry
from shared.sketches import reference_hash
from tests.brokers import running_broker
from tests.edge.fleet.station import member, region, settings
from tests.edge.stand_in_cloud import a_sample
from tests.edge.test_novelty import DIM, KNOWN, MEANS, write


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerAddress]:
    with running_broker("embedded", tmp_path_factory.mktemp("broker")) as address:
        yield address


def test_sketches_strata_and_a_spell_that_lasted_too_long_are_in_the_report(
    tmp_path: Path, broker: BrokerAddress
) -> None:
    write(tmp_path / "bundle", MEANS)
    routing = {"audit_share": 0.0, "novelty": {"raised_s_max": 1e-9}}
    its = settings(tmp_path / "camera-sketches", broker, routing=routing).model_copy(
        update={"fleet": FleetSettings.model_construct(telemetry_s=0.05)}
    )

    async def scenario() -> None:
        async with region(broker, "camera-sketches") as north, member(its) as it:
            await it.agent.take([a_sample(KNOWN) for _ in range(4)])
            await it.agent.take([a_sample(DIM) for _ in range(100)])
            said = await north.hears_of(Telemetry, lambda t: t.tally.samples == 104)
            assert said.sketches is not None
            assert said.sketches.reference == reference_hash((MEANS,))
            below, within, beyond = said.sketches.counts["input_mean"]
            assert (below, within, beyond) == (said.tally.novel, 1, 0)
            assert said.tally.novel > 90
            first = said.tally.strata[0]
            assert (first.share, first.confident, first.audited) == (0.0, 4, 0)
            assert "this device needs a model for what it sees now" in said.health.trouble
            counts = it.counters.snapshot()
            assert counts["became_novel"] == counts["audits_raised_out"] == 1

    asyncio.run(scenario())
