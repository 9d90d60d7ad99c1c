"""Versions that replace one another under load: nobody is dropped, nobody gets another's answer."""

import asyncio
import gc
import weakref
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from cloud.serving.model import LoadedModel
from cloud.serving.pool import ModelPool
from shared.bundle.reader import open_bundle
from tests.cloud.serving.pools import (
    FASHION_CLOUD,
    SHIFT,
    fashion,
    label,
    play,
    running,
    tiny,
    until,
)
from tests.tiny_bundle import sure_image

CLIENTS = 32
SWAPS = 20


def test_twenty_swaps_under_load_drop_nothing_inline(tmp_path: Path) -> None:
    for version in SHIFT:
        tiny(tmp_path, version=version)
    answered: Counter[str] = Counter()

    async def client(pool: ModelPool, number: int, stop: asyncio.Event) -> None:
        want = number % 3
        rows = sure_image(want)[None]
        while not stop.is_set():
            served = pool.find("tiny")
            for _ in range(number % 4):
                await asyncio.sleep(0)  # its body is still on its way
            ran = await served.batcher.infer(rows, 1e12)
            expected = (want + SHIFT[served.version]) % 3
            assert int(np.argmax(ran.outputs.logits[0])) == expected
            answered[served.version] += 1

    async def scenario() -> None:
        async with running(tmp_path / "tiny-1.0.0", folder=tmp_path, versions_max=1) as pool:
            await swap_under_load(pool, "tiny", client, answered)

    play(scenario, 120)
    assert min(answered[version] for version in SHIFT) >= CLIENTS * SWAPS // 2


def test_twenty_swaps_under_load_drop_nothing_in_threads(tmp_path: Path) -> None:
    for version in SHIFT:
        fashion(tmp_path, version)
    golden = open_bundle(FASHION_CLOUD).golden
    answered: Counter[str] = Counter()

    async def client(pool: ModelPool, number: int, stop: asyncio.Event) -> None:
        at = number % len(golden.inputs)
        while not stop.is_set():
            served = pool.find("fashion-cloud")
            for _ in range(number % 4):
                await asyncio.sleep(0)
            ran = await served.batcher.infer(golden.inputs[at : at + 1], 1e12)
            assert np.abs(ran.outputs.logits[0] - golden.outputs[at]).max() < 1.5
            answered[served.version] += 1

    async def scenario() -> None:
        first = tmp_path / "fashion-cloud-1.0.0"
        async with running(first, folder=tmp_path, versions_max=1) as pool:
            assert pool.find("fashion-cloud").model.curve.cost_s(8) > 0.001
            await swap_under_load(pool, "fashion-cloud", client, answered)

    play(scenario, 120)
    assert min(answered[version] for version in SHIFT) >= CLIENTS * SWAPS // 2


async def swap_under_load(pool: ModelPool, name: str, client, answered: Counter[str]) -> None:
    """Any failure of a client ends it. The next swap comes once the last one has seen traffic."""
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        for number in range(CLIENTS):
            tasks.create_task(client(pool, number, stop))
        for swap in range(SWAPS):
            version = list(SHIFT)[(swap + 1) % 2]
            await pool.load(name, version)
            assert pool.find(name).version == version
            assert pool.versions(name) == (version,)
            seen = answered[version] + CLIENTS
            await until(lambda: answered[version] >= seen)
        stop.set()


def test_whoever_found_the_old_version_is_answered_by_it(tmp_path: Path) -> None:
    for version in SHIFT:
        tiny(tmp_path, version=version)

    async def scenario() -> None:
        async with running(tmp_path / "tiny-1.0.0", folder=tmp_path, versions_max=1) as pool:
            found = pool.find("tiny")
            await pool.load("tiny")
            assert pool.find("tiny").version == "2.0.0"
            for _ in range(100):  # rounds enough for a close that does not wait
                await asyncio.sleep(0)
            assert await label(found, of=0) == 1
            closing = pool._loads.retiring.finish()
            del found
            await closing
            assert pool._loads.retiring.memory_bytes == 0

    play(scenario)


def test_a_version_that_is_held_for_too_long_is_closed_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for version in SHIFT:
        tiny(tmp_path, version=version)

    async def scenario() -> None:
        async with running(
            tmp_path / "tiny-1.0.0", folder=tmp_path, versions_max=1, retire_s_max=0.01
        ) as pool:
            held = pool.find("tiny")
            await pool.load("tiny")
            await pool._loads.retiring.finish()
            with pytest.raises(Exception, match="shutting down"):
                await label(held)

    play(scenario)
    assert "retired_version_is_held" in caplog.text


def test_what_was_accepted_by_the_old_version_is_answered_before_it_is_closed(
    tmp_path: Path,
) -> None:
    for version in SHIFT:
        fashion(tmp_path, version)
    golden = open_bundle(FASHION_CLOUD).golden.inputs

    async def scenario() -> None:
        async with running(
            tmp_path / "fashion-cloud-1.0.0", folder=tmp_path, versions_max=1, retire_s_max=0.01
        ) as pool:
            batcher = pool.find("fashion-cloud").batcher
            accepted = [
                asyncio.create_task(batcher.infer(golden[n % 64][None], 1e12)) for n in range(500)
            ]
            await asyncio.sleep(0)
            await pool.load("fashion-cloud", "2.0.0")
            assert len(await asyncio.gather(*accepted)) == 500

    play(scenario)


def test_nothing_of_a_replaced_version_stays_in_memory(tmp_path: Path) -> None:
    for version in SHIFT:
        tiny(tmp_path, version=version)

    async def scenario() -> None:
        async with running(tmp_path / "tiny-1.0.0", folder=tmp_path, versions_max=1) as pool:
            models: list[weakref.ref[LoadedModel]] = []
            for swap in range(6):
                served = await pool.load("tiny", list(SHIFT)[(swap + 1) % 2])
                models.append(weakref.ref(served.model))
                await label(served)
                del served
            await pool._loads.retiring.finish()
            gc.collect()
            assert [model() is not None for model in models] == [False] * 5 + [True]

    play(scenario)
