"""A rollout as a device sees it: shadow, live, undo; and a kill between disk and effect."""

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cloud.broker.launch import BrokerAddress
from edge.answers import Answer
from edge.updates.folders import factory_release
from shared.bundle.reader import open_bundle
from shared.fleet.desired import DesiredModel, Stage
from shared.fleet.reported import DevicePhase, ReportedModel
from shared.fleet.telemetry import Telemetry
from tests.brokers import running_broker
from tests.edge.fleet.following import following
from tests.edge.fleet.station import Member, region
from tests.edge.stand_in_cloud import a_sample, cloud
from tests.edge.updates.station import bundle, settings, station
from tests.tiny_bundle import sure_image, unsure_image, write_tiny_bundle

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerAddress]:
    with running_broker("embedded", tmp_path_factory.mktemp("broker")) as address:
        yield address


async def lives(it: Member) -> Answer:
    """Live samples, until the task is cancelled."""
    while True:
        await it.agent.answer(a_sample(sure_image(0)))
        await it.agent.answer(a_sample(unsure_image()))
        await asyncio.sleep(0.01)


def test_a_version_goes_through_shadow_to_live_and_back(
    tmp_path: Path, broker: BrokerAddress
) -> None:
    write_tiny_bundle(tmp_path / "bundle")
    home = factory_release(open_bundle(tmp_path / "bundle"))

    async def scenario() -> None:
        async with station() as its, region(broker, "rolling") as north, cloud(broker):
            sha256 = its.release(bundle(tmp_path, "2.0.0", scale=11.0))

            async def desires(
                generation: int, stage: Stage, version: str = "2.0.0", sha256: str = sha256
            ) -> None:
                wanted = DesiredModel(
                    generation=generation, model="tiny-edge", version=version, rollout="r-1",
                    manifest_sha256=sha256, stage=stage, undo=version != "2.0.0",
                )  # fmt: skip
                await north.desires("model", wanted.to_bytes())

            async with following(
                tmp_path / "rolling", broker, settings(its, tmp_path, agreement_min=0.1)
            ) as it:
                living = asyncio.create_task(lives(it))
                await desires(1, "shadow")
                said = await north.hears_of(ReportedModel, lambda r: r.phase == DevicePhase.STAGED)
                assert (said.version, said.candidate, said.rollout) == ("1.0.0", "2.0.0", "r-1")
                seen = await north.hears_of(
                    Telemetry, lambda t: t.shadow is not None and t.shadow.both_wrong > 0
                )
                assert seen.shadow is not None
                assert (seen.shadow.version, seen.tally.version) == ("2.0.0", "1.0.0")
                await desires(2, "live")
                done = await north.hears_of(ReportedModel, lambda r: r.version == "2.0.0")
                assert (done.generation, done.manifest_sha256) == (2, sha256)
                after = await north.hears_of(Telemetry, lambda t: t.tally.version == "2.0.0")
                assert after.tally.started == 1
                await desires(3, "live", home.version, home.manifest_sha256)
                back = await north.hears_of(
                    ReportedModel, lambda r: r.generation == 3 and r.phase == DevicePhase.COMMITTED
                )
                assert back.version == "1.0.0"
                living.cancel()

    asyncio.run(scenario())


def test_what_was_taken_before_a_kill_is_followed_at_the_next_start_without_the_broker(
    tmp_path: Path, broker: BrokerAddress
) -> None:
    write_tiny_bundle(tmp_path / "bundle")

    async def scenario() -> None:
        async with station() as its, region(broker, "killed") as north:
            sha256 = its.release(bundle(tmp_path, "2.0.0", scale=11.0))
            updating = settings(its, tmp_path, agreement_min=0.1)
            file = tmp_path / "updates.json"
            await asyncio.to_thread(file.write_text, updating.model_dump_json())
            wanted = DesiredModel(
                generation=7, model="tiny-edge", version="2.0.0", manifest_sha256=sha256
            )
            await north.desires("model", wanted.to_bytes())
            child = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.edge.fleet.killed_member", str(tmp_path / "killed"),
                broker.host, str(broker.port), str(file),
                cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)},
            )  # fmt: skip
            assert await child.wait() == -signal.SIGKILL
            async with following(tmp_path / "killed", None, updating) as it:
                living = asyncio.create_task(lives(it))
                async with asyncio.timeout(20):
                    while it.agent.manifest.version != "2.0.0":
                        await it.agent.durable()
                living.cancel()

    asyncio.run(scenario())
