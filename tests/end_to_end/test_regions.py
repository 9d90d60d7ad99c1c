"""A home, replicas and a device, as real processes in networks that are cut and healed."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

from cloud.registry.client.push import hashed, push_data_set
from shared.errors import ReadOnly
from tests.end_to_end.namespaces import (
    Network,
    Proxies,
    namespaces,
    proxies,
    why_no_namespaces,
)
from tests.end_to_end.registries import VERSION, Registries, prepare


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prepared")

    async def make() -> None:
        async with proxies() as network:
            await prepare(folder, network)

    asyncio.run(make())
    return folder


@asynccontextmanager
async def networked() -> AsyncIterator[Network]:
    """Network namespaces, or proxies where these cannot be had."""
    async with namespaces() if why_no_namespaces() is None else proxies() as network:
        yield network


@asynccontextmanager
async def region(folder: Path, prepared: Path, network: Network) -> AsyncIterator[Registries]:
    sites = Registries(folder, network)
    sites.take(prepared)
    try:
        yield sites
    finally:
        await sites.down()


async def started(sites: Registries, *more: str) -> None:
    """A home that knows of its replica, the replica caught up, a device."""
    sites.configure("home", peers=("replica",))
    sites.configure("replica", follows=("home", "other"), peers=())
    await asyncio.gather(
        sites.up("home", "--alone"), *(sites.up(name) for name in ("replica", "device", *more))
    )
    for name in ("replica", *more):
        await sites.caught_up(name)


async def _cut_and_heal(sites: Registries) -> None:
    await started(sites)
    seen = {"version": VERSION, "epoch": 1, "files": 1}
    assert (await sites.look("replica")).items() >= seen.items()
    await sites.network.cut("home")
    await sites.write("home", "made-during-the-cut", "another")
    # the region's devices do not notice: the replica is asked first, and has all that it needs
    assert (await sites.look("home", "replica")).items() >= seen.items()
    found = await sites.state("replica")
    assert found["writable"] is False
    with pytest.raises(ReadOnly, match=sites.network.url("home", "replica")):
        await sites.write("replica", "refused")
    await sites.network.heal("home")
    there = await sites.caught_up("replica")
    assert there["head"]["seq"] == (await sites.state("home"))["head"]["seq"]
    async with sites.client("replica") as replica:
        assert "made-during-the-cut" in {model.name for model in await replica.models()}
    await sites.reported("replica", there["head"]["seq"])


def test_devices_are_served_through_a_cut_and_the_replica_catches_up(tmp_path, prepared):
    async def scenario() -> None:
        async with networked() as network, region(tmp_path, prepared, network) as sites:
            await _cut_and_heal(sites)

    asyncio.run(scenario())


@pytest.mark.skipif(why_no_namespaces() is not None, reason="it is what the test above does here")
def test_connections_that_break_are_a_cut_as_well(tmp_path, prepared):
    async def scenario() -> None:
        async with proxies() as network, region(tmp_path, prepared, network) as sites:
            await _cut_and_heal(sites)

    asyncio.run(scenario())


def test_network_namespaces_are_what_regions_are_tested_in():
    if (why := why_no_namespaces()) is not None:
        pytest.skip(f"{why}; regions are tested through proxies that are cut instead")


async def _promote_and_fence(sites: Registries) -> None:
    sites.configure("other", follows=("home", "replica"))
    await started(sites, "other")
    shared = (await sites.state("home"))["head"]["seq"]
    await sites.network.cut("home")
    await sites.write("home", "only-the-old-home-has-this")
    keys = [f"--root-key={sites.folder}/keys/root-{number}.pem" for number in (1, 3)]
    code, done, words = await sites.operate("replica", "promote", *keys, "--comment=home is lost")
    assert code == 0, words
    assert (done["epoch"], done["entry"], done["lost"]) == (2, shared + 1, [])
    await sites.until("replica", lambda found: found["role"] == "home" and found["writable"])
    await sites.write("replica", "made-by-the-new-home")
    assert (await sites.look("replica"))["epoch"] == 2
    assert (await sites.look("replica"))["version"] == VERSION
    await sites.caught_up("other", to="replica")

    await sites.network.heal("home")
    fenced = await sites.until("home", lambda found: found["role"] == "fenced")
    assert fenced["head"]["epoch"] == 1
    with pytest.raises(ReadOnly, match=sites.network.url("replica", "home")):
        await sites.write("home", "too-late")
    # a device that has seen the new root trusts the old home no more, and is served by the new one
    assert "NotTrusted" in (await sites.look("home"))["why"][0]
    assert (await sites.look("home", "replica"))["url"] == sites.network.url("replica", "device")
    await sites.write("replica", "after-the-heal")
    await sites.caught_up("other", to="replica")
    assert await sites.state("other") != await sites.state("home")

    await sites.until("home", lambda _: bool(sites.logged("home", "kept_aside")))
    (line,) = sites.logged("home", "kept_aside")
    aside = json.loads(await asyncio.to_thread(Path(line["file"]).read_text))
    assert [entry["change"]["model"] for entry in aside["entries"]] == [
        "only-the-old-home-has-this"
    ]
    assert aside["fork"]["seq"] == shared == line["fork"]

    await sites.end("home")
    code, done, words = await sites.operate("home", "rejoin")
    assert code == 0, words
    assert (done["fork_entry"], done["entries_aside"]) == (shared, 1)
    await sites.up("home")
    found = await sites.caught_up("home", to="replica")
    assert found["role"] == "replica"


def test_after_a_promotion_the_old_home_cannot_write_and_nobody_follows_it(tmp_path, prepared):
    async def scenario() -> None:
        async with networked() as network, region(tmp_path, prepared, network) as sites:
            await _promote_and_fence(sites)

    asyncio.run(scenario())


async def _killed_in_mid_copy(sites: Registries, network: Proxies) -> None:
    rows = 40_000
    inputs = np.random.default_rng(1).integers(0, 256, (rows, 16, 16), np.uint8)
    data = sites.folder / "data.npz"
    np.savez(data, inputs=inputs, labels=np.arange(rows) % 2)
    sites.configure("home")
    sites.configure("replica", follows=("home",))
    await sites.up("home")
    async with sites.client("home") as home:
        await push_data_set(home, "big", 1, hashed(data), lambda _: None)
    total = data.stat().st_size
    way = network.way("replica", "home")
    way.passes_bytes = total * 3 // 4
    await sites.up("replica")
    async with asyncio.timeout(30):
        await way.stalled.wait()
    found = await sites.state("replica")
    assert not await _has_data_set(sites)  # nothing of it is seen before all of it is here
    assert found["region"]["state"] == "copying"
    await sites.kill("replica")
    way.passes_bytes = None
    await sites.up("replica")
    found = await sites.caught_up("replica")
    assert await _has_data_set(sites)
    copied = found["region"]["counts"]["artifact_bytes"]
    assert 0 < copied < total * 0.9, (copied, total)  # it went on, and did not begin anew


async def _has_data_set(sites: Registries) -> bool:
    async with sites.client("replica") as replica:
        return bool(await replica.data_sets())


def test_a_replica_killed_in_mid_copy_goes_on_where_it_was(tmp_path, prepared):
    async def scenario() -> None:
        async with proxies() as network, region(tmp_path, prepared, network) as sites:
            await _killed_in_mid_copy(sites, network)

    asyncio.run(scenario())
