"""Updates of a real agent that follow a fleet, from a real registry's bytes."""

import asyncio
import hashlib
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from edge.inference.slot import Slot
from edge.updates.fleet_view import OPERATOR
from edge.updates.release import Release
from edge.updates.target import Target
from shared.errors import Malformed
from shared.fleet.reported import DevicePhase
from shared.ids import SampleId
from tests.edge.stand_in_cloud import a_sample
from tests.edge.updates.station import WAIT_S, Device, Station, bundle, device, station
from tests.edge.updates.test_probe import graph_of, with_graph
from tests.tiny_bundle import sure_image, write_tiny_bundle

Body = Callable[[Station, Device], Awaitable[None]]


def with_device(root: Path, body: Body, *versions: Path, **changes: Any) -> None:
    """It follows a fleet; `versions` are released before it starts."""

    async def main() -> None:
        async with asyncio.timeout(WAIT_S), station() as registry:
            for folder in versions:
                registry.release(folder)
            async with device(root, registry, follows=True, **changes) as it:
                await body(registry, it)

    asyncio.run(main())


def target(folder: Path, generation: int, **changes: Any) -> Target:
    """Of the version that lies in `folder`."""
    manifest = (folder / "manifest.json").read_bytes()
    version = "1.0.0" if folder.name == "bundle" else folder.name.removeprefix("made-")
    return Target(generation, version, hashlib.sha256(manifest).hexdigest(), **changes)


async def reports(it: Device, phase: DevicePhase, generation: int) -> None:
    """Wait for it by `on_change` alone, as who reports it does."""
    changed = asyncio.Event()
    it.updates.on_change = changed.set
    async with asyncio.timeout(WAIT_S):
        while (it.updates.view().phase, it.updates.view().generation) != (phase, generation):
            await changed.wait()
            changed.clear()


async def label_of(it: Device, image: int) -> int:
    return (await it.agent.answer(a_sample(sure_image(image)))).label


async def live_sample(it: Device) -> SampleId:
    return (await it.agent.answer(a_sample(sure_image(0)))).id


def fetched(registry: Station) -> int:
    return sum("/artifacts/" in seen.path for seen in registry.seen)


def test_nothing_comes_until_the_fleet_asks_and_then_what_it_asks_for(tmp_path: Path) -> None:
    two, three = bundle(tmp_path, "2.0.0", shift=1), bundle(tmp_path, "3.0.0", shift=2)

    async def body(registry: Station, it: Device) -> None:
        await it.shows(lambda: "has asked for nothing yet" in it.updates.status().note)
        assert fetched(registry) == 0
        await it.updates.follow(target(two, 1, rollout="r-1"))
        await reports(it, DevicePhase.COMMITTED, 1)
        view = it.updates.view()
        assert (view.active.version, view.rollout) == ("2.0.0", "r-1")
        assert await label_of(it, 0) == 1
        await it.updates.follow(target(three, 1))  # a copy, and a lie
        assert it.updates.view().active.version == "2.0.0"

    with_device(tmp_path, body, two, three)


def test_a_staged_candidate_waits_beside_the_active_one_and_its_samples_count_when_it_goes_live(
    tmp_path: Path,
) -> None:
    two = bundle(tmp_path, "2.0.0", shift=1)

    async def body(_: Station, it: Device) -> None:
        await it.updates.follow(target(two, 1, stage="shadow"))
        await reports(it, DevicePhase.STAGED, 1)
        await it.shows(lambda: it.agent.shadow is not None)
        wrong = right = 0
        while (wrong, right) != (10, 5):
            sample = await live_sample(it)
            cloud = 1 if right < 5 else 0  # the candidate says 1, the active one 0
            it.updates.cloud_said(sample, cloud)
            wrong, right = wrong + (cloud == 0), right + (cloud == 1)
        await it.shows(lambda: shown(it).samples == 15)
        shadow = shown(it)
        assert (shadow.only_candidate_right, shadow.only_active_right) == (5, 10)
        assert (shadow.both_right, shadow.both_wrong, shadow.agreed) == (0, 0, 0)
        assert (shadow.version, shadow.started, sum(shadow.latency)) == ("2.0.0", 1, 15)
        assert it.updates.view().active.version == "1.0.0"
        await it.updates.follow(target(two, 2))  # live
        await reports(it, DevicePhase.COMMITTED, 2)
        assert "15 live samples" in it.updates.status().why  # of the shadow: no second trial
        assert shown(it) == shadow
        assert await label_of(it, 0) == 1

    with_device(
        tmp_path, body, two, agreement_min=0.0, trial_samples=15, trial_samples_min=15,
        trial_s_max=3600.0, trial_cpu_share=1.0,
    )  # fmt: skip


def shown(it: Device) -> Any:
    shadow = it.updates.shadow_tally()
    assert shadow is not None
    return shadow


def test_a_staged_candidate_that_is_far_off_is_rejected_before_it_goes_live(tmp_path: Path) -> None:
    two = bundle(tmp_path, "2.0.0", shift=1)

    async def body(registry: Station, it: Device) -> None:
        await it.updates.follow(target(two, 1, stage="shadow"))
        await reports(it, DevicePhase.STAGED, 1)
        while it.updates.view().phase == DevicePhase.STAGED:
            await label_of(it, 0)
            await asyncio.sleep(0.002)
        view = it.updates.view()
        assert (view.phase, view.golden_failed) == (DevicePhase.REJECTED, False)
        assert "far too little" in view.why
        count = fetched(registry)
        await it.updates.follow(target(two, 2))  # the same attempt
        assert it.updates.view().phase == DevicePhase.REJECTED
        assert fetched(registry) == count
        await it.updates.follow(target(two, 3, attempt=2, stage="shadow"))
        await reports(it, DevicePhase.STAGED, 3)

    with_device(tmp_path, body, two)


def test_a_restart_while_it_is_staged_resumes_that_and_withdrawing_it_ends_it(
    tmp_path: Path,
) -> None:
    two = bundle(tmp_path, "2.0.0", shift=1)

    async def main() -> None:
        async with asyncio.timeout(WAIT_S), station() as registry:
            registry.release(two)
            async with device(tmp_path, registry, follows=True) as it:
                await it.updates.follow(target(two, 1, stage="shadow"))
                await reports(it, DevicePhase.STAGED, 1)
            async with device(tmp_path, registry, follows=True) as it:
                assert it.updates.view().phase == DevicePhase.STAGED
                await it.shows(lambda: it.agent.shadow is not None)
                await it.updates.follow(target(tmp_path / "bundle", 2, undo=True))
                assert it.updates.view().phase == DevicePhase.COMMITTED
                assert it.agent.shadow is None
                assert not list((tmp_path / "device/updates/versions").iterdir())

    asyncio.run(main())


def test_an_undo_swaps_back_at_once_in_the_middle_of_the_next_update_and_leaves_no_hold(
    tmp_path: Path,
) -> None:
    two, three = bundle(tmp_path, "2.0.0", shift=1), bundle(tmp_path, "3.0.0", shift=2)

    async def body(registry: Station, it: Device) -> None:
        await it.updates.follow(target(two, 1))
        await reports(it, DevicePhase.COMMITTED, 1)
        await it.updates.follow(target(three, 2, stage="shadow"))
        await reports(it, DevicePhase.STAGED, 2)
        await it.shows(lambda: it.agent.shadow is not None)
        runs, count = shown(it).started, fetched(registry)
        await it.updates.follow(target(tmp_path / "bundle", 3, undo=True))
        await reports(it, DevicePhase.COMMITTED, 3)
        assert (await label_of(it, 0), it.updates.view().active.version) == (0, "1.0.0")
        assert (shown(it).started, fetched(registry)) == (runs, count)
        assert it.updates.status().held_number is None
        await it.updates.follow(target(two, 4))  # without undo: tried as any other
        await reports(it, DevicePhase.COMMITTED, 4)
        assert shown(it).started == runs + 1

    with_device(tmp_path, body, two, three)


def test_an_undo_to_a_version_that_lost_a_bit_fetches_it_anew(tmp_path: Path) -> None:
    two, three = bundle(tmp_path, "2.0.0", shift=1), bundle(tmp_path, "3.0.0", shift=2)

    async def body(registry: Station, it: Device) -> None:
        for generation, folder in enumerate((two, three), 1):
            await it.updates.follow(target(folder, generation))
            await reports(it, DevicePhase.COMMITTED, generation)
        flip_a_bit(tmp_path, "2.0.0")
        count, looked, opens = fetched(registry), it.updates.status().checked_at, threading.Event()
        opener = it.updates._work.open

        def opens_late(release: Release, engine: str | None = None) -> Slot:
            assert opens.wait(WAIT_S)
            return opener(release, engine)

        it.updates._work.open = opens_late  # type: ignore[method-assign]
        await it.updates.follow(target(two, 3, undo=True))
        await it.shows(lambda: it.updates.status().checked_at != looked)
        opens.set()  # the look that the target brought is over
        await reports(it, DevicePhase.COMMITTED, 3)
        assert await label_of(it, 0) == 1
        assert fetched(registry) > count

    with_device(tmp_path, body, two, three)


def flip_a_bit(root: Path, version: str) -> None:
    (graph,) = (root / "device/updates/versions").glob(f"{version}-*/variants/model.onnx")
    spoilt = bytearray(graph.read_bytes())
    spoilt[len(spoilt) // 2] ^= 1
    graph.write_bytes(spoilt)


def test_a_version_that_is_not_released_here_is_waited_for_then_reported_and_looked_for_on(
    tmp_path: Path,
) -> None:
    one, two = bundle(tmp_path, "1.5.0"), bundle(tmp_path, "2.0.0", shift=1)

    async def body(registry: Station, it: Device) -> None:
        await it.updates.follow(target(two, 1))
        assert it.updates.view().phase == DevicePhase.ACCEPTED
        await reports(it, DevicePhase.FAILED, 1)
        assert "does not name" in it.updates.view().why
        registry.release(two)
        await reports(it, DevicePhase.COMMITTED, 1)

    with_device(tmp_path, body, one, released_s_max=0.3, poll_s=0.1)


def test_a_version_that_a_replica_is_behind_with_is_looked_for_soon(tmp_path: Path) -> None:
    one, two = bundle(tmp_path, "1.5.0"), bundle(tmp_path, "2.0.0", shift=1)

    async def body(registry: Station, it: Device) -> None:  # the next regular look is in an hour
        await it.shows(lambda: it.updates.status().checked_at is not None)
        await it.updates.follow(target(two, 1))
        await it.shows(lambda: "does not name" in it.updates.view().why)
        registry.release(two)
        await reports(it, DevicePhase.COMMITTED, 1)

    with_device(tmp_path, body, one)


def test_a_registry_that_cannot_be_looked_at_is_reported_in_time(tmp_path: Path) -> None:
    two = bundle(tmp_path, "2.0.0", shift=1)

    async def body(registry: Station, it: Device) -> None:  # it knows nothing of the model yet
        await it.updates.follow(target(two, 1))
        await reports(it, DevicePhase.FAILED, 1)
        assert "no look at the registry" in it.updates.view().why
        registry.release(two)
        await reports(it, DevicePhase.COMMITTED, 1)

    with_device(tmp_path, body, released_s_max=0.3, poll_s=0.1)


def test_a_version_that_fails_its_golden_samples_here_says_so(tmp_path: Path) -> None:
    two = tmp_path / "made-2.0.0"
    other = write_tiny_bundle(tmp_path / "other", shift=1) / "variants/model.onnx"
    with_graph(two, other.read_bytes(), version="2.0.0")

    async def body(_: Station, it: Device) -> None:
        await it.updates.follow(target(two, 1))
        await reports(it, DevicePhase.REJECTED, 1)
        view = it.updates.view()
        assert view.golden_failed
        assert "differ from the reference" in view.why

    with_device(tmp_path, body, two)


def test_a_version_that_is_too_slow_here_did_not_fail_its_golden_samples(tmp_path: Path) -> None:
    two = with_graph(tmp_path / "made-2.0.0", graph_of(rounds=3), version="2.0.0")

    async def body(_: Station, it: Device) -> None:
        await it.updates.follow(target(two, 1))
        await reports(it, DevicePhase.REJECTED, 1)
        assert not it.updates.view().golden_failed

    with_device(tmp_path, body, two, slower_max=2.0)


def test_a_disk_without_room_is_a_failure_with_its_figures(tmp_path: Path) -> None:
    two = bundle(tmp_path, "2.0.0", shift=1)

    async def body(_: Station, it: Device) -> None:
        await it.updates.follow(target(two, 1))
        await reports(it, DevicePhase.FAILED, 1)
        assert "are lacking; free them" in it.updates.view().why

    with_device(tmp_path, body, two, free_bytes_min=2**60)


def test_an_operator_on_the_device_wins_until_he_resumes(tmp_path: Path) -> None:
    two, three = bundle(tmp_path, "2.0.0", shift=1), bundle(tmp_path, "3.0.0", shift=2)

    async def body(_: Station, it: Device) -> None:
        await it.updates.follow(target(two, 1))
        await reports(it, DevicePhase.COMMITTED, 1)
        await it.updates.rollback("1.0.0")
        view = it.updates.view()
        assert (view.phase, view.why) == (DevicePhase.ROLLED_BACK, OPERATOR)
        await it.updates.follow(target(three, 2))
        assert await label_of(it, 0) == 0
        await it.updates.release_hold()
        await reports(it, DevicePhase.COMMITTED, 2)
        assert await label_of(it, 0) == 2

    with_device(tmp_path, body, two, three)


def test_a_target_that_the_disk_does_not_take_is_taken_once_it_does(tmp_path: Path) -> None:
    two = bundle(tmp_path, "2.0.0", shift=1)

    async def body(_: Station, it: Device) -> None:
        await it.shows(lambda: it.updates.status().checked_at is not None)
        blocked = tmp_path / "device/updates/state.json.new"
        blocked.mkdir(parents=True)  # where the new state would be written
        first = it.updates.follow(target(tmp_path / "bundle", 1))
        await it.shows(lambda: "state.json" in it.updates.status().note)
        newer = it.updates.follow(target(two, 2))  # replaces it while it waits
        it.updates.follow(target(tmp_path / "bundle", 1))  # an old one does not
        assert not first.done()
        assert it.updates.view().generation == 0
        blocked.rmdir()
        await asyncio.gather(first, newer)
        await reports(it, DevicePhase.COMMITTED, 2)

    with_device(tmp_path, body, two)


def test_a_pin_beside_a_fleet_is_refused(tmp_path: Path) -> None:
    async def body(_: Station, it: Device) -> None:
        raise AssertionError("it started")

    with pytest.raises(ExceptionGroup) as caught:
        with_device(tmp_path, body, pin="2.0.0")
    assert caught.group_contains(Malformed, match="remove the pin")


def test_windows_and_pace_change_while_it_runs(tmp_path: Path) -> None:
    two = bundle(tmp_path, "2.0.0", shift=1)

    async def body(_: Station, it: Device) -> None:
        with pytest.raises(Malformed, match="window"):
            it.updates.retune(("1-2",), None)
        it.updates.retune((), 10_000_000.0)
        await it.updates.follow(target(two, 1))
        await reports(it, DevicePhase.COMMITTED, 1)

    with_device(tmp_path, body, two)
