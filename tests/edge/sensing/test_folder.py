"""A real folder, on virtual time: each file once, bad ones once, across power cuts."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edge.sensing import data_set, folder_files
from edge.sensing import folder as folder_source
from edge.sensing.folder import FolderSource
from edge.telemetry.counters import Counters
from shared.errors import Malformed, TooLarge, Unavailable
from simulations import virtual_time
from tests.edge.sensing.fake_intake import FakeIntake, PowerCut, Record, inline


def put(folder: Path, name: str, shade: int = 0, side: int = 4) -> None:
    """As a careful writer does it: under another name, then renamed."""
    with (folder / f".{name}").open("wb") as file:
        np.save(file, np.full((side, side), shade, np.uint8))
    (folder / f".{name}").rename(folder / name)


def watch(
    folder: Path,
    record: Record,
    *steps: Callable[[], None],
    counters: Counters | None = None,
    intake: FakeIntake | None = None,
    **settings: object,
) -> None:
    """Run a source of one look a second; every ten seconds the next step is done."""

    async def scenario() -> None:
        source = FolderSource(
            folder,
            counters=counters or Counters(),
            offload=inline,
            **settings,  # type: ignore[arg-type]  # settings by name
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(source.run(intake or FakeIntake(record)))
            for step in steps:
                await asyncio.sleep(10)
                step()
            await asyncio.sleep(10)
            source.drain()

    virtual_time.run(scenario())


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_files_are_read_once_in_the_order_they_were_finished(tmp_path: Path) -> None:
    record = Record()
    put(tmp_path, "b.npy", 2)
    watch(tmp_path, record, lambda: put(tmp_path, "a.npy", 1), lambda: put(tmp_path, "c.npy", 3))
    assert record.positions == ["b.npy", "a.npy", "c.npy"]
    assert [int(sample.tensor[0, 0]) for sample in record.samples] == [2, 1, 3]
    assert names(tmp_path) == ["a.npy", "b.npy", "c.npy"]
    watch(tmp_path, record, lambda: put(tmp_path, "aa.npy"))  # after a restart
    assert record.positions[3:] == ["aa.npy"]


def test_a_file_that_is_written_anew_is_a_new_sample(tmp_path: Path) -> None:
    record = Record()
    put(tmp_path, "now.npy", 1)
    watch(tmp_path, record, lambda: put(tmp_path, "now.npy", 2))
    assert [int(sample.tensor[0, 0]) for sample in record.samples] == [1, 2]


def test_an_old_modification_time_hides_nothing(tmp_path: Path) -> None:
    record = Record()
    put(tmp_path, "a.npy")

    def copy_with_its_times() -> None:
        put(tmp_path, "b.npy")
        os.utime(tmp_path / "b.npy", (1, 1))

    watch(tmp_path, record, copy_with_its_times)
    assert record.positions == ["a.npy", "b.npy"]


def test_a_growing_file_is_left_alone_until_it_stands_still(tmp_path: Path) -> None:
    record, counters = Record(), Counters()
    np.save(tmp_path / "whole.npy", np.zeros((4, 4), np.uint8))
    content = (tmp_path / "whole.npy").read_bytes()

    async def scenario() -> None:
        source = FolderSource(tmp_path, counters=counters, offload=inline)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(source.run(FakeIntake(record)))
            await asyncio.sleep(0.5)
            with (tmp_path / "slow.npy").open("wb", buffering=0) as file:
                for byte in content:
                    file.write(bytes([byte]))
                    await asyncio.sleep(1)
                    assert record.positions in ([], ["whole.npy"])
            await asyncio.sleep(3)
            source.drain()

    virtual_time.run(scenario())
    assert record.positions == ["whole.npy", "slow.npy"]
    assert counters.snapshot() == {}


def test_unfinished_hidden_and_other_things_are_not_read(tmp_path: Path) -> None:
    record, counters = Record(), Counters()
    put(tmp_path, "a.npy")
    for name in (".hidden.npy", "b.npy.tmp", "c.part", "d.partial"):
        (tmp_path / name).write_bytes(b"half")
    (tmp_path / "folder.npy").mkdir()
    (tmp_path / "link.npy").symlink_to(tmp_path / "a.npy")
    os.mkfifo(tmp_path / "pipe.npy")
    watch(tmp_path, record, counters=counters)
    assert record.positions == ["a.npy"]
    assert counters.snapshot() == {}


@pytest.mark.parametrize("after", ["keep", "delete"])
def test_bad_files_are_refused_once_and_the_rest_is_read(
    tmp_path: Path, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (data_set, folder_files):
        monkeypatch.setattr(module, "SAMPLE_BYTES_MAX", 1000)
    record, counters = Record(), Counters()

    def spoil() -> None:
        put(tmp_path, "a.npy")
        (tmp_path / "cut.png").write_bytes(b"\x89PNG\r\n\x1a\n cut")
        put(tmp_path, "wide.npy", side=5)
        (tmp_path / "empty.npy").write_bytes(b"")
        (tmp_path / "huge.npy").write_bytes(b"\0" * 1001)
        put(tmp_path, "z.npy")

    watch(tmp_path, record, spoil, counters=counters, after=after)
    assert record.positions == ["a.npy", "z.npy"]
    assert counters.snapshot() == {"refused_malformed": 3, "refused_too_large": 1}
    watch(tmp_path, record, counters=counters, after=after)
    assert counters.snapshot() == {"refused_malformed": 3, "refused_too_large": 1}
    bad = ["cut.png", "empty.npy", "huge.npy", "wide.npy"]
    if after == "delete":
        assert names(tmp_path) == [".refused"]
        assert names(tmp_path / ".refused") == bad
    else:
        assert names(tmp_path) == sorted(["a.npy", "z.npy", *bad])


def test_refused_files_that_end_the_folder_are_not_counted_again_after_a_restart(
    tmp_path: Path,
) -> None:
    record, counters = Record(), Counters()
    (tmp_path / "bad.npy").write_bytes(b"no")
    for _ in range(3):
        watch(tmp_path, record, counters=counters)
    assert counters.snapshot() == {"refused_malformed": 1}


def test_the_folder_of_refused_files_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_files, "REFUSED_FILES_MAX", 2)
    for name in "abcde":
        (tmp_path / name).write_bytes(b"no")
    watch(tmp_path, Record(), after="delete")
    assert names(tmp_path) == [".refused"]
    assert len(names(tmp_path / ".refused")) == 2


@pytest.mark.parametrize("cut_in_durable", [False, True])
@pytest.mark.parametrize("after", ["keep", "delete"])
def test_power_cuts_neither_lose_nor_repeat_a_file(
    tmp_path: Path, after: str, cut_in_durable: bool
) -> None:
    record = Record()
    for n in range(50):
        put(tmp_path, f"{n:02}.npy", n)
    for cut_after in (1, 20):
        if after == "keep" and cut_in_durable:
            continue  # it never waits for the disk
        intake = FakeIntake(record, cut_after=cut_after, cut_in_durable=cut_in_durable)
        with pytest.raises(ExceptionGroup) as caught:
            watch(tmp_path, record, intake=intake, after=after)
        assert caught.group_contains(PowerCut)
    watch(tmp_path, record, after=after)
    assert sorted(record.positions) == [f"{n:02}.npy" for n in range(50)]
    assert len(names(tmp_path)) == (50 if after == "keep" else 0)


def test_nothing_is_deleted_before_it_is_on_disk(tmp_path: Path) -> None:
    record = Record()
    put(tmp_path, "a.npy")
    with pytest.raises(ExceptionGroup):
        watch(tmp_path, record, intake=FakeIntake(record, cut_in_durable=True), after="delete")
    assert names(tmp_path) == ["a.npy"]


def test_a_file_written_over_while_it_is_taken_is_not_deleted(tmp_path: Path) -> None:
    record = Record()
    put(tmp_path, "now.npy", 1)

    def write_over(intake: FakeIntake) -> None:
        if len(intake.record.samples) == 1:
            put(tmp_path, "now.npy", 2)

    watch(tmp_path, record, intake=FakeIntake(record, on_take=write_over), after="delete")
    assert [int(sample.tensor[0, 0]) for sample in record.samples] == [1, 2]
    assert names(tmp_path) == []


def test_a_file_written_over_while_it_is_read_is_read_when_it_is_finished(tmp_path: Path) -> None:
    record = Record()
    put(tmp_path, "now.npy", 1)
    reads = 0

    def read_while_written(path: Path, bytes_max: int) -> bytes:
        nonlocal reads
        reads += 1
        content = path.read_bytes()
        if reads == 1:
            put(tmp_path, "now.npy", 2)
        return content

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folder_files, "read_bounded", read_while_written)
        watch(tmp_path, record)
    assert [int(sample.tensor[0, 0]) for sample in record.samples] == [2]


def test_files_that_cannot_be_deleted_are_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path) -> None:
        raise PermissionError("held by another")

    record, counters = Record(), Counters()
    put(tmp_path, "a.npy")
    monkeypatch.setattr(Path, "unlink", refuse)
    watch(tmp_path, record, lambda: put(tmp_path, "b.npy"), counters=counters, after="delete")
    assert record.positions == ["a.npy", "b.npy"]
    assert counters.snapshot() == {"folder_undeletable": 2}


def test_too_many_files_that_cannot_be_deleted_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_source, "STUCK_MAX", 2)
    monkeypatch.setattr(folder_files, "delete", lambda *_: False)
    for name in "abc":
        put(tmp_path, f"{name}.npy")
    with pytest.raises(ExceptionGroup) as caught:
        watch(tmp_path, Record(), after="delete")
    assert caught.group_contains(Unavailable, match="3 files cannot be removed")


def test_a_file_of_gigabytes_is_refused_by_its_size_alone(tmp_path: Path) -> None:
    def never(*_: object) -> bytes:
        raise AssertionError("it must not be read")

    record, counters = Record(), Counters()
    with (tmp_path / "huge.npy").open("wb") as file:
        file.truncate(8 * 2**30)  # a hole, no blocks
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folder_files, "read_bounded", never)
        watch(tmp_path, record, counters=counters)
    assert counters.snapshot() == {"refused_too_large": 1}
    with pytest.raises(TooLarge, match=r"huge\.npy: over 1000 bytes"):
        data_set.read_bounded(tmp_path / "huge.npy", 1000)


def test_a_folder_that_goes_away_and_comes_back_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    record, folder, away = Record(), tmp_path / "in", tmp_path / "away"
    folder.mkdir()
    put(folder, "a.npy")

    def lose() -> None:
        folder.rename(away)

    def back() -> None:
        away.rename(folder)
        put(folder, "b.npy")

    watch(folder, record, lose, back)
    assert record.positions == ["a.npy", "b.npy"]
    assert [r.message for r in caplog.records] == ["folder_lost", "folder_back"]


def test_a_folder_that_is_not_there_is_an_error_of_the_settings(tmp_path: Path) -> None:
    async def start() -> None:
        await FolderSource(tmp_path / "none", counters=Counters(), offload=inline).run(FakeIntake())

    with pytest.raises(Malformed, match="is no folder"):
        virtual_time.run(start())


def test_a_changed_rule_starts_over_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    record = Record()
    put(tmp_path, "a.npy")
    watch(tmp_path, record)
    watch(tmp_path, record, after="delete")
    assert record.positions == ["a.npy", "a.npy"]
    assert [r.message for r in caplog.records] == ["cursor_unreadable"]


def test_names_that_are_no_text(tmp_path: Path) -> None:
    record = Record()
    put(tmp_path, os.fsdecode(b"\xff.npy"))
    for _ in range(2):
        watch(tmp_path, record)
    assert record.positions == ["\ufffd.npy"]
