"""Replays on virtual time: an hour takes a moment."""

import asyncio
import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from edge.sensing.replay import ReplaySource
from edge.telemetry.counters import Counters
from shared.errors import Malformed
from simulations import virtual_time
from tests.edge.sensing.fake_intake import FakeIntake, PowerCut, Record, inline


def write_npy(path: Path, count: int, side: int = 4) -> Path:
    images = np.arange(count, dtype=np.uint8)[:, None, None] + np.zeros((side, side), np.uint8)
    np.save(path, images)
    return path


def source(path: Path, counters: Counters | None = None, **settings: object) -> ReplaySource:
    return ReplaySource(path, counters=counters or Counters(), offload=inline, **settings)  # type: ignore[arg-type]  # settings by name


def numbers(count: int, start: int = 0, step: int = 1) -> list[str]:
    return [str(index) for index in range(start, count, step)]


def test_a_set_is_played_once_in_order(tmp_path: Path) -> None:
    path, intake = write_npy(tmp_path / "set.npy", 100), FakeIntake()
    virtual_time.run(source(path).run(intake))
    assert intake.record.positions == numbers(100)
    assert [int(sample.tensor[0, 0]) for sample in intake.record.samples] == list(range(100))
    assert len({sample.id for sample in intake.record.samples}) == 100
    assert {sample.origin for sample in intake.record.samples} == {"replay:set.npy"}


def test_the_rate_does_not_drift_when_the_intake_is_slow(tmp_path: Path) -> None:
    class Slow(FakeIntake):
        async def take(self, *args):  # type: ignore[no-untyped-def]  # as above it
            await asyncio.sleep(0.07)  # more than half of a period
            return await super().take(*args)

    path, intake = write_npy(tmp_path / "set.npy", 100), Slow()
    virtual_time.run(source(path, rate_per_s=10.0).run(intake))
    assert intake.record.positions == numbers(100)
    assert intake.taken_at == pytest.approx([0.1 * i + 0.07 for i in range(100)])


def test_what_was_missed_while_the_intake_stood_still_is_made_up_for(tmp_path: Path) -> None:
    class Stuck(FakeIntake):
        async def take(self, *args):  # type: ignore[no-untyped-def]  # as above it
            if not self.record.samples:
                await asyncio.sleep(2.05)
            return await super().take(*args)

    path, intake = write_npy(tmp_path / "set.npy", 100), Stuck()
    virtual_time.run(source(path, rate_per_s=10.0).run(intake))
    assert intake.record.positions == numbers(100)
    assert intake.taken_at[20] == pytest.approx(2.05)
    assert intake.taken_at[21:] == pytest.approx([0.1 * i for i in range(21, 100)])


def test_shards_share_a_set(tmp_path: Path) -> None:
    path, record = write_npy(tmp_path / "set.npy", 100), Record()
    for k in range(3):
        virtual_time.run(source(path, shard=(k, 3)).run(FakeIntake(record)))
    assert record.positions == numbers(100, 0, 3) + numbers(100, 1, 3) + numbers(100, 2, 3)
    with pytest.raises(Malformed, match="fewer shards"):
        virtual_time.run(source(path, shard=(100, 101)).run(FakeIntake()))


@pytest.mark.parametrize("cut_after", [1, 40, 96])
def test_after_a_power_cut_nothing_is_played_twice_or_left_out(
    tmp_path: Path, cut_after: int
) -> None:
    path, record = write_npy(tmp_path / "set.npy", 100), Record()
    with pytest.raises(PowerCut):
        virtual_time.run(source(path).run(FakeIntake(record, cut_after=cut_after)))
    assert 0 < len(record.samples) < 100
    virtual_time.run(source(path).run(FakeIntake(record)))
    virtual_time.run(source(path).run(FakeIntake(record)))  # at its end already
    assert record.positions == numbers(100)


def test_repeating_goes_on_in_its_lap_after_a_restart(tmp_path: Path) -> None:
    path, record = write_npy(tmp_path / "set.npy", 40), Record()
    with pytest.raises(PowerCut):
        virtual_time.run(source(path, repeat=True).run(FakeIntake(record, cut_after=100)))
    with pytest.raises(PowerCut):
        virtual_time.run(source(path, repeat=True).run(FakeIntake(record, cut_after=200)))
    assert record.positions == (numbers(40) * 6)[: len(record.positions)]


def test_draining_ends_a_wait(tmp_path: Path) -> None:
    async def scenario() -> float:
        playing = source(write_npy(tmp_path / "set.npy", 9), rate_per_s=0.001)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(playing.run(intake))
            await asyncio.sleep(1500)
            playing.drain()
        return asyncio.get_running_loop().time()

    intake = FakeIntake()
    assert virtual_time.run(scenario()) == pytest.approx(1500)
    assert intake.record.positions == ["0", "1"]


def test_full_speed_lets_others_run(tmp_path: Path) -> None:
    async def scenario() -> int:
        turns = 0
        playing = asyncio.create_task(source(write_npy(tmp_path / "s.npy", 250)).run(FakeIntake()))
        while not playing.done():
            turns += 1
            await asyncio.sleep(0)
        return turns

    assert virtual_time.run(scenario()) >= 250 // 32


def test_idx_gz_and_npz_hold_the_same(tmp_path: Path) -> None:
    images = np.arange(48, dtype=np.uint8).reshape(3, 4, 4)
    idx = struct.pack(">BBBBIII", 0, 0, 8, 3, 3, 4, 4) + images.tobytes()
    (tmp_path / "images-idx3-ubyte").write_bytes(idx)
    (tmp_path / "images-idx3-ubyte.gz").write_bytes(gzip.compress(idx))
    np.savez(tmp_path / "set.npz", images=images, labels=np.arange(3))
    np.savez_compressed(tmp_path / "packed.npz", images=images)
    for path in tmp_path.iterdir():
        intake = FakeIntake()
        virtual_time.run(source(path).run(intake))
        assert [s.tensor.tolist() for s in intake.record.samples] == images.tolist(), path


def test_a_bad_file_in_a_folder_is_refused_once_and_the_rest_is_played(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a", "c", "e"):
        np.save(tmp_path / f"{name}.npy", np.zeros((4, 4), np.uint8))
    (tmp_path / "b.png").write_bytes(b"\x89PNG\r\n\x1a\n cut")
    np.save(tmp_path / "d.npy", np.zeros((5, 4), np.uint8))
    (tmp_path / "f.npy").symlink_to(tmp_path / "a.npy")
    (tmp_path / "labels.csv").write_text("1,2")
    counters, record = Counters(), Record()
    with pytest.raises(PowerCut):
        virtual_time.run(
            source(tmp_path, counters, repeat=True).run(FakeIntake(record, cut_after=30))
        )
    assert record.positions[:6] == ["a.npy", "c.npy", "e.npy"] * 2
    assert counters.snapshot() == {"refused_malformed": 2}
    assert [r.message for r in caplog.records] == ["sample_refused"]  # one line a minute


def test_a_folder_of_nothing_but_bad_files_ends(tmp_path: Path) -> None:
    (tmp_path / "b.png").write_bytes(b"")
    with pytest.raises(Malformed, match="every sample was refused"):
        virtual_time.run(source(tmp_path, repeat=True).run(FakeIntake()))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("missing.npy", None, "cannot be read"),
        ("set.npz", b"PK\x03\x04 no archive", "cannot be read"),
        ("set.gz", b"\x1f\x8b\x08 broken", "cannot be read"),
        ("set.bin", b"what is this", "neither PNG, JPEG, NPY nor IDX"),
        ("empty", b"", "empty"),
    ],
)
def test_sets_that_cannot_be_played(
    tmp_path: Path, name: str, content: bytes | None, words: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(Malformed, match=words):
        virtual_time.run(source(tmp_path / name).run(FakeIntake()))


def test_other_sets_that_cannot_be_played(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    np.savez(tmp_path / "other.npz", pictures=np.zeros((2, 4, 4), np.uint8))
    for path, words in {
        tmp_path / "empty": "holds no .png",
        tmp_path / "other.npz": "no member 'images'",
        write_npy(tmp_path / "wide.npy", 3, side=5): r"the model takes \[4, 4\]",
    }.items():
        with pytest.raises(Malformed, match=words):
            virtual_time.run(source(path).run(FakeIntake()))


@pytest.mark.parametrize("position", ["", "3", "a:b", "-1:2", "1:2:3", "9" * 99 + ":1"])
def test_a_damaged_cursor_starts_over(tmp_path: Path, position: str) -> None:
    path, record = write_npy(tmp_path / "set.npy", 3), Record()
    playing = source(path)
    record.cursors[playing.name] = position
    virtual_time.run(playing.run(FakeIntake(record)))
    assert record.positions == numbers(3)
