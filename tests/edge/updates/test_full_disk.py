"""A disk that is full: before, during, and when the state is to be written."""

import asyncio
import errno
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from edge.updates import state_file
from edge.updates.release import Release
from edge.updates.state import first_state
from shared.disk import NoRoom
from tests.edge.stand_in_cloud import a_sample
from tests.edge.updates.station import WAIT_S, bundle, device, station
from tests.edge.updates.test_kill import with_big_card
from tests.tiny_bundle import sure_image

_MIB = 1024 * 1024


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """8 MiB, to be the device's state directory."""
    folder = tmp_path / "device"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(
            "no right to mount a small disk here; tests/shared/fetching/test_size_limit.py stands in"
        )
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def fill(disk: Path) -> Path:
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, pytest.raises(OSError) as full:
        while True:
            file.write(bytes(4096))
    assert full.value.errno == errno.ENOSPC
    return filler


def test_a_bundle_that_does_not_fit_is_not_begun(tmp_path: Path, disk: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(WAIT_S), station() as registry:
            new = bundle(tmp_path, "2.0.0", shift=1)
            card = with_big_card(new, 7 * _MIB)
            registry.release(new)
            async with device(tmp_path, registry, free_bytes_min=2 * _MIB) as it:
                await it.reaches("failed")
                assert "are lacking; free them" in it.updates.status().why
                assert registry.asked_for(card) == 0
                assert (await it.agent.answer(a_sample(sure_image(0)))).label == 0

    asyncio.run(main())


def test_a_disk_that_fills_up_on_the_way_undoes_the_update_and_the_next_look_takes_it(
    tmp_path: Path, disk: Path
) -> None:
    async def main() -> None:
        async with asyncio.timeout(WAIT_S), station() as registry:
            new = bundle(tmp_path, "2.0.0", shift=1)
            registry.bad_path = with_big_card(new, 3 * _MIB)
            registry.release(new)
            fillers: list[Path] = []

            async def fills(request: web.Request) -> web.StreamResponse:
                fillers.append(fill(disk))
                return registry.serve(request)

            registry.misdeeds = [fills]
            async with device(tmp_path, registry, free_bytes_min=0) as it:
                await it.reaches("failed")
                assert "no room" in it.updates.status().why
                assert not list_of(disk / "updates/staging")
                assert (await it.agent.answer(a_sample(sure_image(0)))).label == 0
                fillers[0].unlink()
                it.updates.request_check()
                await it.reaches("active", version="2.0.0")

    asyncio.run(main())


def test_a_state_that_cannot_be_written_leaves_the_one_before(disk: Path) -> None:
    old = first_state("m", Release("1.0.0", "a" * 64, 10, 0))
    new = first_state("n", Release("2.0.0", "b" * 64, 10, 0))
    state_file.save(disk, old)
    fill(disk)
    with pytest.raises(NoRoom, match="free space"):
        state_file.save(disk, new)
    assert state_file.load(disk) == old


def list_of(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir()) if folder.exists() else []
