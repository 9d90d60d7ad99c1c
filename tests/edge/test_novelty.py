"""A whole agent meets inputs unlike its bundle's reference: what leaves, what is counted and said."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cloud.broker.launch import BrokerAddress
from edge.agent import Agent
from edge.config import Config
from edge.inference.slot import open_slot
from edge.routing.settings import Novelty, Routing
from shared.bundle.manifest import Sketch
from shared.bundle.reader import open_bundle
from tests.brokers import running_broker
from tests.edge.stand_in_cloud import a_sample, agent, cloud, config, says
from tests.tiny_bundle import rewrite_manifest, sure_image, write_tiny_bundle

KNOWN = sure_image(1)
DIM = (KNOWN * 0.6).astype(np.uint8)
"""The model is sure of it, and no known input is so dark."""
MEANS = Sketch(feature="input_mean", edges=(60.0, 200.0), counts=(0, 5_000, 0))


def write(folder: Path, *reference: Sketch, version: str = "1.0.0") -> Path:
    write_tiny_bundle(folder, version=version)
    manifest = open_bundle(folder).manifest
    rewrite_manifest(folder, manifest.model_copy(update={"reference": reference}))
    return folder


@pytest.fixture
def state(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Named after the test, since it names the device too."""
    write(tmp_path / "bundle", MEANS)
    name: str = request.node.name
    return tmp_path / name.removeprefix("test_").split("[")[0][:60]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerAddress]:
    with running_broker("embedded", tmp_path_factory.mktemp("broker")) as address:
        yield address


def settings(state: Path, broker: BrokerAddress | None, **novelty: object) -> Config:
    routing = {"audit_share": 0.0, "novelty": {"audit_share": 1.0, **novelty}}
    return config(state, broker, routing=routing)


async def routes(it: Agent, image: NDArray[np.uint8], count: int) -> list[str]:
    return [answer.route for answer in await it.take([a_sample(image) for _ in range(count)])]


def test_a_novel_input_goes_to_the_cloud_however_sure_the_edge_is(
    state: Path, broker: BrokerAddress
) -> None:
    async def scenario() -> None:
        async with agent(settings(state, broker)) as it, cloud(broker, lambda e: [says(e)]) as far:
            it.count()
            asked = await it.answer(a_sample(DIM))
            assert (asked.route, asked.label) == ("novel", 1)
            assert asked.confidence > 0.8
            final = await it.final(asked.id, 5.0)
            assert (final.source, final.label, final.route) == ("cloud", 2, "novel")
            assert [(e.reason, e.share) for e in far.got] == [("novel", 1.0)]
            assert it.tally is not None
            said = it.tally.document()
            assert (said.samples, said.escalated, said.novel, said.answered) == (1, 1, 1, 1)

    asyncio.run(scenario())


def test_while_inputs_are_novel_audits_are_raised_and_carry_their_share(
    state: Path, broker: BrokerAddress
) -> None:
    async def scenario() -> None:
        its = settings(state, broker, audit_share=0.75)
        async with agent(its) as it, cloud(broker) as far:
            it.count()
            assert await routes(it, KNOWN, 8) == ["accepted"] * 8
            asked = await it.take([a_sample(DIM) for _ in range(100)])
            seen = it.novelty()
            assert seen is not None
            assert (seen.level, seen.audit_share) == ("novel", 0.75)
            assert it.counters()["became_novel"] == 1
            asked += await it.take([a_sample(KNOWN) for _ in range(40)])
            audited = sum(answer.route == "audit" for answer in asked)
            assert 20 < audited < 40
            for answer in asked:
                await it.final(answer.id, 5.0)
            assert {(e.reason, e.share) for e in far.got} == {("novel", 1.0), ("audit", 0.75)}
            assert it.tally is not None
            plain, raised = it.tally.document().strata
            assert (plain.share, plain.audited) == (0.0, 0)
            assert (raised.share, raised.confident, raised.audited) == (0.75, 40, audited)

    asyncio.run(scenario())


def test_an_escalation_keeps_its_reason_over_a_restart(state: Path, broker: BrokerAddress) -> None:
    async def scenario() -> None:
        async with agent(settings(state, None)) as it:
            asked = await it.answer(a_sample(DIM))
        async with agent(settings(state, broker)) as it, cloud(broker) as far:
            assert (await it.final(asked.id, 5.0)).route == "novel"
            assert far.got[0].reason == "novel"

    asyncio.run(scenario())


def test_another_version_is_held_against_its_own_reference(state: Path) -> None:
    async def scenario() -> None:
        darker = MEANS.model_copy(update={"edges": (10.0, 200.0)})
        folder = write(state.parent / "newer", darker, version="2.0.0")
        async with agent(settings(state, None)) as it:
            it.count()
            await routes(it, DIM, 100)
            before = it.watch
            assert before is not None
            assert before.level == "novel"
            old = it.swap(open_slot(folder, "auto", state))
            assert it.watch is not None
            assert it.watch.level == "calm"
            assert await routes(it, DIM, 40) == ["accepted"] * 40
            said = it.watch.sketching.document()
            assert said.reference != before.sketching.document().reference
            assert (said.looked, said.counts["input_mean"]) == (10, (0, 10, 0))
            it.swap(old).close()

    asyncio.run(scenario())


@pytest.mark.parametrize("reference", [(), (MEANS.model_copy(update={"feature": "input.mean"}),)])
def test_a_bundle_without_a_reference_that_this_agent_knows_is_not_watched(
    state: Path, reference: tuple[Sketch, ...]
) -> None:
    manifest = open_bundle(state.parent / "bundle").manifest
    changed = manifest.model_copy(update={"reference": reference})
    rewrite_manifest(state.parent / "bundle", changed)

    async def scenario() -> None:
        async with agent(settings(state, None)) as it:
            it.count()
            assert it.watch is None
            assert it.novelty() is None
            assert await routes(it, DIM, 8) == ["accepted"] * 8

    asyncio.run(scenario())


def test_without_a_cloud_to_ask_nothing_is_watched(state: Path) -> None:
    async def scenario() -> None:
        async with agent(settings(state, None).model_copy(update={"uplink": None})) as it:
            assert it.watch is None
            assert await routes(it, DIM, 8) == ["accepted"] * 8

    asyncio.run(scenario())


def test_a_profile_switches_it_off_and_on_and_the_fleet_gets_its_sketches_all_the_same(
    state: Path,
) -> None:
    async def scenario() -> None:
        async with agent(settings(state, None)) as it:
            it.count()
            it.retune(Routing(audit_share=0.0, novelty=Novelty(on=False)))
            assert await routes(it, DIM, 8) == ["accepted"] * 8
            assert it.watch is not None
            assert it.watch.sketching.document().counts["input_mean"] == (2, 0, 0)
            it.retune(Routing(audit_share=0.0))
            assert "novel" in await routes(it, DIM, 8)

    asyncio.run(scenario())


def test_a_breakdown_of_the_model_is_no_novelty_and_counts_in_no_sketch(state: Path) -> None:
    async def scenario() -> None:
        async with agent(settings(state, None)) as it:
            it.count()
            judged, pending = it._judge.judge(it._active, a_sample(DIM), [float("nan")] * 3)
            assert judged.route == "escalated"
            assert pending is not None
            assert pending.escalation.share == 1.0
            assert it.watch is not None
            assert it.watch.sketching.document().looked == 0

    asyncio.run(scenario())
