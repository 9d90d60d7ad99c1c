"""Another version takes the slot over while the agent answers."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cloud.broker.launch import BrokerAddress
from edge.agent import Agent
from edge.answers import Answer
from edge.config import Config
from edge.inference.slot import Slot, open_slot
from edge.routing.calibrations import Calibrations
from shared.bundle.reader import open_bundle
from shared.errors import Unknown
from tests.brokers import Client, running_broker
from tests.edge.stand_in_cloud import WAIT_S, a_sample, agent, cloud, config, until
from tests.tiny_bundle import rewrite_manifest, sure_image, unsure_image, write_tiny_bundle


@pytest.fixture
def state(tmp_path: Path) -> Path:
    write_tiny_bundle(tmp_path / "bundle")
    return tmp_path / "swapping"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerAddress]:
    with running_broker("embedded", tmp_path_factory.mktemp("broker")) as address:
        yield address


def newer(state: Path, **changes: Any) -> Slot:
    """Version 2, which answers the label after the right one."""
    folder = state.parent / "newer"
    write_tiny_bundle(folder, version="2.0.0", shift=1, **changes)
    return open_slot(folder, "auto", state)


class _Told:
    """An open session that says so before each run."""

    def __init__(self, inner: Slot, tell: Callable[[], None]) -> None:
        self._run, self._tell, self.close = inner._run, tell, inner._close
        self.inputs = self.outputs = ()

    def run(self, batch: NDArray[np.generic]) -> NDArray[np.float32]:
        self._tell()
        return self._run(batch)


def told(settings: Config, tell: Callable[[], None]) -> Slot:
    """Version 1 on the event loop; `tell` is called before each run."""
    inner = open_slot(settings.bundle, "auto", settings.state_dir)
    return Slot(inner.bundle, _Told(inner, tell), inner.key, latency_ms=0.1)


def end_the_turn(it: Agent) -> None:
    """The model took too long: the loop runs before the next sample."""
    it._turn_began = 0.0


class _Held:
    """An open session that runs once it is let go."""

    def __init__(self, inner: Slot) -> None:
        self._run, self.may_run, self.closed = inner._run, threading.Event(), False
        self.began = threading.Event()
        self.inputs = self.outputs = ()

    def run(self, batch: NDArray[np.generic]) -> NDArray[np.float32]:
        self.began.set()
        assert self.may_run.wait(WAIT_S)
        assert not self.closed, "closed while it ran"
        assert threading.current_thread() is not threading.main_thread(), "the event loop waits"
        return self._run(batch)

    def close(self) -> None:
        self.closed = True


def test_the_next_sample_is_the_new_versions(state: Path) -> None:
    async def scenario() -> None:
        async with agent(config(state, None)) as it:
            before = await it.answer(a_sample(sure_image(0)))
            old = it.swap(newer(state))
            after = await it.answer(a_sample(sure_image(0)))
            assert (before.label, before.model_version) == (0, "1.0.0")
            assert (after.label, after.model_version) == (1, "2.0.0")
            assert (it.manifest.version, it.slot.manifest.version) == ("2.0.0", "2.0.0")
            assert it.swap(old).manifest.version == "2.0.0"  # and back, at once
            assert (await it.answer(a_sample(sure_image(0)))).label == 0

    asyncio.run(scenario())


def test_no_request_is_dropped_while_versions_change(state: Path) -> None:
    async def scenario() -> None:
        async with agent(config(state, None)) as it:
            spare, answers, done = newer(state), list[Answer](), False

            async def asking() -> None:
                while not done:
                    answers.extend(await it.take([a_sample(sure_image(0)) for _ in range(20)]))
                    answers.append(await it.answer(a_sample(sure_image(0))))
                    await asyncio.sleep(0)

            async with asyncio.TaskGroup() as tasks:
                for _ in range(4):
                    tasks.create_task(asking())
                for swaps in range(50):
                    spare = it.swap(spare)
                    await until(lambda most=(swaps + 1) * 20: len(answers) > most)
                done = True
            wrong = [a for a in answers if a.label != {"1.0.0": 0, "2.0.0": 1}[a.model_version]]
            assert not wrong
            assert {a.model_version for a in answers} == {"1.0.0", "2.0.0"}
            await it.durable()
            assert it.counters()["recorded"] == len(answers)

    asyncio.run(scenario())


def test_a_slot_that_was_swapped_answers_what_it_has_before_it_closes(state: Path) -> None:
    async def scenario() -> None:
        quick = open_slot(state.parent / "bundle", "auto", state)
        held = _Held(quick)
        slow = Slot(quick.bundle, held, quick.key, latency_ms=5.0)
        async with agent(config(state, None), slow) as it:
            asked = asyncio.create_task(it.answer(a_sample(sure_image(0))))
            await asyncio.to_thread(held.began.wait, WAIT_S)
            retiring = asyncio.create_task(it.swap(newer(state)).retire())
            assert (await it.answer(a_sample(sure_image(0)))).model_version == "2.0.0"
            assert not held.closed
            held.may_run.set()
            assert (await asked).model_version == "1.0.0"
            await retiring
            assert held.closed

    asyncio.run(scenario())


def test_a_chunk_goes_on_with_whoever_has_taken_over(state: Path) -> None:
    async def scenario() -> None:
        settings, taken = config(state, None), 0

        def hurry() -> None:
            end_the_turn(it)

        async with agent(settings, told(settings, hurry)) as it:

            def shadow(_tensor: NDArray[np.uint8], _answer: Answer) -> None:
                nonlocal taken
                taken += 1
                if taken == 1:
                    slow = open_slot(state.parent / "newer", "auto", state)
                    asyncio.get_running_loop().call_soon(it.swap, Slot(
                        slow.bundle, slow_session(slow), slow.key, latency_ms=5.0,
                    ))  # fmt: skip

            def slow_session(inner: Slot) -> _Held:
                session = _Held(inner)
                session.may_run.set()
                return session

            newer(state).close()
            it.shadow = shadow
            answers = await it.take([a_sample(sure_image(0)) for _ in range(5)])
            assert [a.model_version for a in answers] == ["1.0.0", *["2.0.0"] * 4]
            assert taken == 5

    asyncio.run(scenario())


@pytest.mark.parametrize("hurried", [False, True])
def test_the_model_runs_over_a_whole_turn_before_its_samples_are_judged(
    state: Path, *, hurried: bool
) -> None:
    async def scenario() -> None:
        settings, did = config(state, None), list[str]()

        def run() -> None:
            did.append("model")
            if hurried:
                end_the_turn(it)
            else:
                it._turn_began = time.monotonic()  # however slow the machine is

        async with agent(settings, told(settings, run)) as it:
            it.shadow = lambda *_: did.append("judged")
            images = [sure_image(label) for label in (0, 1, 2)]
            answers = await it.take([a_sample(image) for image in images])
            assert [answer.label for answer in answers] == [0, 1, 2]
            assert did == (["model", "judged"] * 3 if hurried else ["model"] * 3 + ["judged"] * 3)

    asyncio.run(scenario())


def test_a_bundle_without_the_threshold_that_is_set_takes_nothing_over(
    state: Path, broker: BrokerAddress
) -> None:
    async def scenario() -> None:
        settings = config(state, broker, routing={"threshold": "balanced"})
        write_tiny_bundle(state.parent / "other", version="2.0.0", escalates=False)
        other = open_slot(state.parent / "other", "auto", state)
        name = open_slot(settings.bundle, "auto", state).manifest.calibration.default_threshold
        async with agent(config(state, broker, routing={"threshold": name})) as it:
            with pytest.raises(Unknown, match="threshold"):
                it.swap(other)
            assert (await it.answer(a_sample(sure_image(0)))).model_version == "1.0.0"
        other.close()

    asyncio.run(scenario())


def test_presence_names_the_version_that_answers(state: Path, broker: BrokerAddress) -> None:
    async def scenario() -> None:
        with Client(broker, "looker") as looker:
            await asyncio.to_thread(looker.subscribe, "hy/v1/swapping/up/state")
            async with agent(config(state, broker)) as it:
                said = [json.loads((await asyncio.to_thread(looker.next)).payload)]
                it.swap(newer(state))
                said.append(json.loads((await asyncio.to_thread(looker.next)).payload))
        assert [(one["online"], one["model_version"]) for one in said] == [
            (True, "1.0.0"), (True, "2.0.0"),
        ]  # fmt: skip

    asyncio.run(scenario())


def test_a_sample_that_waits_is_fused_by_the_calibration_of_the_version_that_saw_it(
    state: Path, broker: BrokerAddress
) -> None:
    def weighing(version: str, weight: float) -> Slot:
        """`weight` is the cloud's."""
        folder = write_tiny_bundle(state.parent / version, version=version)
        manifest = open_bundle(folder).manifest
        calibration = manifest.calibration.model_copy(update={"fusion_cloud_weight": weight})
        rewrite_manifest(folder, manifest.model_copy(update={"calibration": calibration}))
        return open_slot(folder, "auto", state)

    async def scenario() -> None:
        async with agent(config(state, broker), weighing("3.0.0", 0.5)) as it:
            waits = await it.answer(a_sample(unsure_image()))
            it.swap(weighing("4.0.0", 1.0)).close()
            other = await it.answer(a_sample(unsure_image()))
            async with cloud(broker):
                fused, alone = [await it.final(one.id, WAIT_S) for one in (waits, other)]
            assert (fused.source, alone.source) == ("fused", "cloud")
            assert fused.confidence < alone.confidence

    asyncio.run(scenario())


def test_calibrations_are_forgotten_one_by_one(state: Path) -> None:
    manifest = open_bundle(state.parent / "bundle").manifest
    manifests = [manifest.model_copy(update={"version": f"1.0.{number}"}) for number in range(9)]
    kept = Calibrations()
    for manifest in manifests:
        kept.learn(manifest)
    assert kept.of("1.0.0") is None
    assert kept.of("1.0.1") == kept.of("1.0.8") == manifests[0].calibration
