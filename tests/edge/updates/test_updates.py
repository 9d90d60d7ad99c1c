import asyncio
import errno
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cloud.registry.deltas.encoder import encode
from edge.inference.slot import Slot
from shared.errors import Conflict, Unknown
from tests.edge.stand_in_cloud import a_sample
from tests.edge.updates.station import WAIT_S, Device, Station, bundle, device, station
from tests.edge.updates.test_kill import partial_bytes, with_big_card
from tests.tiny_bundle import sure_image

Body = Callable[[Station, Device], Awaitable[None]]


def with_device(root: Path, body: Body, *versions: Path, **changes: Any) -> None:
    """`versions` are released before the device starts."""

    async def main() -> None:
        async with asyncio.timeout(WAIT_S), station() as registry:
            for folder in versions:
                registry.release(folder)
            async with device(root, registry, **changes) as it:
                await body(registry, it)

    asyncio.run(main())


async def label_of(it: Device, image: int) -> int:
    return (await it.agent.answer(a_sample(sure_image(image)))).label


def test_a_release_comes_and_answers_and_is_reported(tmp_path: Path) -> None:
    async def body(registry: Station, it: Device) -> None:
        assert await label_of(it, 0) == 0
        await it.reaches("active", version="2.0.0")
        assert await label_of(it, 0) == 1
        await it.shows(lambda: any(r["state"] == "active" for r in registry.reports))
        assert registry.reports[-1] == {
            "model": "tiny-edge", "version": "2.0.0", "variant": "onnxruntime/fp32",
            "state": "active", "path": "/v1/runners/cam-1",
        }  # fmt: skip

    with_device(tmp_path, body, bundle(tmp_path, "2.0.0", shift=1))


def test_requests_go_on_through_download_probe_trial_and_swap(tmp_path: Path) -> None:
    versions: list[str] = []

    async def body(registry: Station, it: Device) -> None:
        done = False

        async def asking() -> None:
            while not done:
                answer = await it.agent.answer(a_sample(sure_image(0)))
                assert answer.label == (1 if answer.model_version == "2.0.0" else 0)
                versions.append(answer.model_version)
                await asyncio.sleep(0.001)

        task = asyncio.create_task(asking())
        await it.reaches("active", version="2.0.0")
        await it.shows(lambda: versions[-1] == "2.0.0")
        done = True
        await task
        assert versions == sorted(versions)
        assert versions[0] == "1.0.0"

    new = bundle(tmp_path, "2.0.0", shift=1)
    with_device(tmp_path, body, new, agreement_min=0.0, trial_samples=30)


def test_a_model_that_disagrees_on_live_samples_is_rejected_and_not_fetched_again(
    tmp_path: Path,
) -> None:
    async def body(registry: Station, it: Device) -> None:
        await it.reaches("trial")
        while it.updates.status().phase == "trial":
            await label_of(it, 0)
            await asyncio.sleep(0.002)
        status = it.updates.status()
        assert (status.phase, status.active.version) == ("rejected", "1.0.0")
        assert "agrees too little" in status.why
        assert it.agent.shadow is None
        asked = len([s for s in registry.seen if "/artifacts/" in s.path])
        it.updates.request_check()
        await it.shows(lambda: "was refused" in it.updates.status().note)
        assert len([s for s in registry.seen if "/artifacts/" in s.path]) == asked
        assert await label_of(it, 0) == 0
        it.updates.request_check(retry=True)
        await it.reaches("downloading", "verifying", "probing", "trial")

    new = bundle(tmp_path, "2.0.0", shift=1)
    with_device(tmp_path, body, new, trial_samples=25, trial_s_max=30.0)


def test_too_few_live_samples_reject_where_the_settings_say_so(tmp_path: Path) -> None:
    async def body(registry: Station, it: Device) -> None:
        await it.reaches("rejected")
        assert "only 0 live samples" in it.updates.status().why

    with_device(tmp_path, body, bundle(tmp_path, "2.0.0"), few_samples="reject")


def test_a_model_with_other_labels_is_rejected_before_its_files_come(tmp_path: Path) -> None:
    new = bundle(tmp_path, "2.0.0", labels=4)

    async def body(registry: Station, it: Device) -> None:
        await it.reaches("rejected")
        assert "labels" in it.updates.status().why
        assert len([s for s in registry.seen if "/artifacts/" in s.path]) == 1  # the manifest

    with_device(tmp_path, body, new)


def test_rollback_is_to_either_kept_version_without_a_fetch_and_holds(tmp_path: Path) -> None:
    async def body(registry: Station, it: Device) -> None:
        await it.reaches("active", version="2.0.0")
        registry.release(bundle(tmp_path, "3.0.0", shift=2))
        it.updates.request_check()
        await it.reaches("active", version="3.0.0")
        assert await label_of(it, 0) == 2
        asked = len(registry.seen)
        status = await it.updates.rollback()
        assert (status.active.version, status.held_number) == ("2.0.0", 2)
        assert await label_of(it, 0) == 1
        assert not any("/artifacts/" in seen.path for seen in registry.seen[asked:])
        it.updates.request_check()
        await it.shows(lambda: "held back" in it.updates.status().note)
        await it.updates.rollback("1.0.0")  # the factory bundle
        assert await label_of(it, 0) == 0
        with pytest.raises(Conflict, match="runs already"):
            await it.updates.rollback("1.0.0")
        with pytest.raises(Unknown, match="kept are"):
            await it.updates.rollback("9.9.9")
        await it.updates.release_hold()
        await it.reaches("active", version="3.0.0")
        assert await label_of(it, 0) == 2
        registry.release(bundle(tmp_path, "4.0.0"))

    with_device(tmp_path, body, bundle(tmp_path, "2.0.0", shift=1))


def test_a_pinned_version_is_taken_and_kept(tmp_path: Path) -> None:
    async def body(registry: Station, it: Device) -> None:
        await it.reaches("active", version="2.0.0")
        it.updates.request_check()
        await it.shows(lambda: "runs already" in it.updates.status().note)

    two, three = bundle(tmp_path, "2.0.0"), bundle(tmp_path, "3.0.0", shift=1)
    with_device(tmp_path, body, two, three, pin="2.0.0")


def test_files_that_are_here_already_are_not_fetched(tmp_path: Path) -> None:
    same = bundle(tmp_path, "2.0.0")  # another manifest, the same graph and golden samples

    async def body(registry: Station, it: Device) -> None:
        await it.reaches("active", version="2.0.0")
        assert len([s for s in registry.seen if "/artifacts/" in s.path]) == 1

    with_device(tmp_path, body, same)


@pytest.mark.parametrize("ahead", [True, False])
def test_a_clock_that_is_a_day_wrong_ends_nothing(tmp_path: Path, ahead: bool) -> None:
    async def main() -> None:
        async with asyncio.timeout(WAIT_S), station() as registry:
            registry.release(bundle(tmp_path, "2.0.0", shift=1))
            off = timedelta(days=1 if ahead else -1)
            async with device(tmp_path, registry, now=lambda: registry.now + off) as it:
                await it.shows(
                    lambda: (
                        it.updates.status().active.version == "2.0.0"
                        or it.updates.status().failures > 1
                    )
                )
                assert await label_of(it, 0) in (0, 1)  # it answers, whatever the clock says

    asyncio.run(main())


def test_metadata_that_has_expired_changes_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(WAIT_S), station() as registry:
            registry.release(bundle(tmp_path, "2.0.0", shift=1))
            late = lambda: registry.now + timedelta(days=30)
            async with device(tmp_path, registry, now=late) as it:
                await it.shows(lambda: it.updates.status().failures > 2)
                assert it.updates.status().active.version == "1.0.0"
                assert "expired" in it.updates.status().note
                assert await label_of(it, 0) == 0
                assert not any("/artifacts/" in seen.path for seen in registry.seen)

    asyncio.run(main())


def test_a_registry_that_cannot_be_reached_is_passed_over_for_the_next(tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(WAIT_S), station() as registry:
            registry.release(bundle(tmp_path, "2.0.0"))
            urls = ["http://127.0.0.1:1", registry.url]
            async with device(tmp_path, registry, urls=urls) as it:
                await it.reaches("active", version="2.0.0")

    asyncio.run(main())


def test_cuts_and_refusals_on_the_way_are_got_over(tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(WAIT_S), station(bad_path="/artifacts/") as registry:
            registry.release(bundle(tmp_path, "2.0.0", shift=1))
            registry.misdeeds = [
                registry.cuts_after(100), registry.says(404), registry.says(503, Retry_After="0"),
                registry.says(429), registry.cuts_after(0), registry.says(500), registry.says(403),
            ]  # fmt: skip
            async with device(tmp_path, registry) as it:
                await it.reaches("active", version="2.0.0")
                assert not registry.misdeeds

    asyncio.run(main())


def test_a_release_that_its_files_do_not_fit_is_never_run(tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(WAIT_S), station(bad_path="/artifacts/") as registry:
            registry.release(bundle(tmp_path, "2.0.0", shift=1))
            for name, content in registry.files.items():
                registry.files[name] = content[:-1] + bytes([content[-1] ^ 1])
            async with device(tmp_path, registry) as it:
                await it.reaches("failed")
                assert "thrown away" in it.updates.status().why
                assert it.updates.status().refused == ()  # the registry may send it whole next time
                assert await label_of(it, 0) == 0

    asyncio.run(main())


def test_a_download_waits_for_its_window_ends_with_it_and_goes_on_in_the_next(
    tmp_path: Path,
) -> None:
    day = datetime(2026, 6, 1, tzinfo=UTC)

    async def main() -> None:
        async with asyncio.timeout(WAIT_S), station(now=day) as registry:
            new = bundle(tmp_path, "2.0.0", shift=1)
            card = with_big_card(new, 3_000_000)
            registry.release(new)
            registry.bad_path, registry.misdeeds = card, [registry.hangs(2_500_000)]
            hours: dict[str, Any] = {"windows": ["01:00-05:00"], "time_zone": "UTC"}
            noon = lambda: day + timedelta(hours=12)
            async with device(tmp_path, registry, now=noon, **hours) as it:
                await it.shows(lambda: "for a window" in it.updates.status().note)
                assert not any("/artifacts/" in seen.path for seen in registry.seen)
                assert await label_of(it, 0) == 0
            nearly_five = lambda: day + timedelta(hours=4, minutes=59, seconds=58)
            async with device(tmp_path, registry, now=nearly_five, **hours) as it:
                await it.shows(lambda: partial_bytes(tmp_path) > 2_000_000)
                await it.shows(lambda: registry.left == 1)  # within the two seconds left
            two = lambda: day + timedelta(hours=26)
            async with device(tmp_path, registry, now=two, **hours) as it:
                await it.reaches("active", version="2.0.0")
            assert any(seen.range for seen in registry.seen if seen.path.endswith(card))

    asyncio.run(main())


def flip_a_bit(versions: Path) -> None:
    (graph,) = versions.glob("*/variants/model.onnx")
    spoilt = bytearray(graph.read_bytes())
    spoilt[len(spoilt) // 2] ^= 1
    graph.write_bytes(spoilt)


def test_a_bit_that_flips_in_the_active_version_is_found_at_start_and_mended(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with asyncio.timeout(WAIT_S), station() as registry:
            registry.release(bundle(tmp_path, "2.0.0", shift=1))
            async with device(tmp_path, registry) as it:
                await it.reaches("active", version="2.0.0")
            flip_a_bit(tmp_path / "device/updates/versions")
            async with device(tmp_path, registry) as it:
                status = it.updates.status()
                assert status.active.version == "1.0.0"
                assert "fell back" in status.why
                await it.reaches("active", version="2.0.0")  # fetched again
                assert await label_of(it, 0) == 1

    asyncio.run(main())


def test_the_whole_way_by_a_delta(tmp_path: Path) -> None:
    old, new = bundle(tmp_path, "2.0.0"), bundle(tmp_path, "3.0.0", shift=1)
    one, two = ((b / "variants/model.onnx").read_bytes() for b in (old, new))
    delta = encode(one, two)
    assert len(delta) < 0.6 * len(two)

    async def main(*, spoilt: bool) -> None:
        async with asyncio.timeout(WAIT_S), station() as registry:
            registry.release(old)
            _, old_sha, _ = registry.offer(one)
            _, new_sha, _ = registry.offer(two)
            _, delta_sha, size = registry.offer(delta[::-1] if spoilt else delta)
            registry.deltas[new_sha] = [
                {"from_sha256": old_sha, "to_sha256": new_sha, "sha256": delta_sha, "bytes": size}
            ]
            async with device(tmp_path, registry, name=f"device-{spoilt}") as it:
                await it.reaches("active", version="2.0.0")
                registry.release(new)
                it.updates.request_check()
                await it.reaches("active", version="3.0.0")
                assert await label_of(it, 0) == 1
                assert registry.asked_for(delta_sha) == 1
                assert registry.asked_for(new_sha) == spoilt  # the full file is what is left then

    asyncio.run(main(spoilt=False))
    asyncio.run(main(spoilt=True))


def test_an_interrupted_trial_goes_on_after_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(WAIT_S), station() as registry:
            registry.release(bundle(tmp_path, "2.0.0", shift=1))
            async with device(tmp_path, registry, trial_s_max=60.0) as it:
                await it.reaches("trial")
            async with device(tmp_path, registry) as it:
                assert it.updates.status().phase == "trial"
                assert it.updates.status().active.version == "1.0.0"
                await it.reaches("active", version="2.0.0")

    asyncio.run(main())


def test_a_candidate_that_the_agents_threshold_does_not_fit_is_put_back(tmp_path: Path) -> None:
    """The agent refuses the swap; the pointer goes back, and the old version answers."""

    async def main() -> None:
        async with asyncio.timeout(WAIT_S), station() as registry:
            registry.release(bundle(tmp_path, "2.0.0", shift=1))
            async with device(tmp_path, registry) as it:

                def refuse(slot: Slot) -> Slot:
                    raise Unknown("no such threshold")

                it.agent.swap = refuse  # type: ignore[method-assign]
                await it.reaches("rejected")
                assert "no such threshold" in it.updates.status().why
                assert it.updates.status().active.version == "1.0.0"
            async with device(tmp_path, registry) as it:
                assert it.agent.slot.manifest.version == "1.0.0"

    asyncio.run(main())


def test_however_often_somebody_asks_for_a_look_the_registry_is_asked_now_and_then(
    tmp_path: Path,
) -> None:
    async def body(registry: Station, it: Device) -> None:
        await it.shows(lambda: it.updates.status().checked_at is not None)
        looks = len(registry.seen)  # requests of one look, at least
        for _ in range(50):
            it.updates.request_check()
            await asyncio.sleep(0.005)
        assert len(registry.seen) <= 4 * looks  # of 50

    new = bundle(tmp_path, "2.0.0", shift=1)
    with_device(tmp_path, body, new, pin="9.0.0", backoff_s_min=0.2, backoff_s_max=0.2)


def test_no_version_shares_bytes_with_the_factory_bundle(tmp_path: Path) -> None:
    async def body(_: Station, it: Device) -> None:
        await it.reaches("active", version="2.0.0")
        status = it.updates.status()
        assert status.phase == "active"
        files = [path for path in (tmp_path / "bundle").rglob("*") if path.is_file()]
        assert {path.stat().st_nlink for path in files} == {1}

    with_device(tmp_path, body, bundle(tmp_path, "2.0.0", shift=1))


def flip_the_card(root: Path) -> None:
    """In the installed version's model card, in place, as a disk does it."""
    (card,) = root.glob("device/updates/versions/*/card.md")
    with card.open("r+b") as file:
        file.write(b"T")


def test_a_bit_that_flips_in_a_file_of_all_versions_leaves_the_factory_bundle(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with asyncio.timeout(WAIT_S), station() as registry:
            registry.release(bundle(tmp_path, "2.0.0"))  # with the factory bundle's model card
            async with device(tmp_path, registry) as it:
                await it.reaches("active", version="2.0.0")
            flip_the_card(tmp_path)
            async with device(tmp_path, registry) as it:
                assert (await it.agent.answer(a_sample(sure_image(0)))).model_version == "1.0.0"

    asyncio.run(main())


def test_tls_files_that_are_away_end_no_agent(tmp_path: Path) -> None:
    async def body(_: Station, it: Device) -> None:
        await it.shows(lambda: "TLS files" in it.updates.status().note)
        assert await label_of(it, 0) == 0

    with_device(tmp_path, body, ca=tmp_path / "away.pem")


def test_a_disk_that_breaks_during_an_update_ends_no_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Path.read_bytes

    def broken(path: Path) -> bytes:
        if "staging" in path.parts:
            raise OSError(errno.EIO, "Input/output error")
        return read(path)

    async def body(_: Station, it: Device) -> None:
        await it.reaches("failed")
        assert "Input/output error" in it.updates.status().why
        assert await label_of(it, 0) == 0

    monkeypatch.setattr(Path, "read_bytes", broken)
    with_device(tmp_path, body, bundle(tmp_path, "2.0.0", shift=1))
