"""What needs torch, which only the `[train]` extra brings: `make test-train`."""

import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from shared.disk import NoRoom
from shared.errors import Unavailable

if TYPE_CHECKING:
    from cloud.training.recipes.checkpoint import Checkpoints

pytestmark = pytest.mark.train

KEY, OTHER_KEY = "ab" * 32, "cd" * 32


def checkpoints(folder: Path, key: str = KEY, kept: int = 2) -> "Checkpoints":
    from cloud.training.recipes.checkpoint import Checkpoints

    return Checkpoints(folder, key, kept)


def a_state(step: int) -> dict[str, object]:
    import torch

    return {"weights": torch.full((100,), float(step)), "best": None, "loss_sum": 0.5}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_newest_comes_back_and_so_many_are_kept(tmp_path: Path) -> None:
    from cloud.training.recipes.checkpoint import loads

    kept = checkpoints(tmp_path)
    for step in (9, 10, 11):
        kept.save(step, a_state(step))
    found = checkpoints(tmp_path).newest()
    assert found.refused == ()
    assert found.resumed is not None
    assert found.resumed.step == 11
    assert loads(found.resumed.payload, "it")["weights"][0] == 11
    assert names(tmp_path) == ["step-000000000010.ckpt", "step-000000000011.ckpt"]


def test_an_empty_or_absent_folder_has_none(tmp_path: Path) -> None:
    assert checkpoints(tmp_path).newest().resumed is None
    assert checkpoints(tmp_path / "absent").newest().resumed is None


def test_a_damaged_one_is_refused_and_the_one_before_is_taken(tmp_path: Path) -> None:
    kept = checkpoints(tmp_path)
    kept.save(1, a_state(1))
    newest = kept.save(2, a_state(2))
    newest.write_bytes(newest.read_bytes()[:-1])
    found = checkpoints(tmp_path).newest()
    assert found.resumed is not None
    assert found.resumed.step == 1
    assert len(found.refused) == 1
    assert "step-000000000002.ckpt" in found.refused[0]


def test_a_refused_one_takes_no_good_ones_place(tmp_path: Path) -> None:
    kept = checkpoints(tmp_path)
    kept.save(1, a_state(1))
    (tmp_path / "step-000000000009.ckpt").write_bytes(b"torn")
    again = checkpoints(tmp_path)
    again.newest()
    again.save(2, a_state(2))
    assert names(tmp_path) == ["step-000000000001.ckpt", "step-000000000002.ckpt"]


def test_another_runs_is_refused(tmp_path: Path) -> None:
    checkpoints(tmp_path, OTHER_KEY).save(1, a_state(1))
    found = checkpoints(tmp_path).newest()
    assert found.resumed is None
    assert "another run or other data" in found.refused[0]


def test_one_with_another_steps_name_is_refused(tmp_path: Path) -> None:
    path = checkpoints(tmp_path).save(1, a_state(1))
    path.rename(tmp_path / "step-000000000005.ckpt")
    found = checkpoints(tmp_path).newest()
    assert found.resumed is None
    assert "is of step 1" in found.refused[0]


class Evil:
    def __init__(self, trace: Path) -> None:
        self._trace = trace

    def __reduce__(self) -> tuple[object, ...]:
        return (os.mkdir, (str(self._trace),))


@pytest.mark.parametrize("holds", ["no zip", "code", "a list"])
def test_one_that_holds_anything_but_plain_data_is_refused(tmp_path: Path, holds: str) -> None:
    from cloud.training.recipes.checkpoint import dumps
    from cloud.training.recipes.checkpoint_file import framed

    trace = tmp_path / "the code ran"
    payload = {
        "no zip": b"no zip", "code": dumps({"weights": Evil(trace)}), "a list": dumps([1])
    }[holds]  # fmt: skip
    (tmp_path / "step-000000000001.ckpt").write_bytes(framed(KEY, 1, payload))
    found = checkpoints(tmp_path).newest()
    assert found.resumed is None
    assert len(found.refused) == 1
    assert not trace.exists()


def test_one_that_is_too_big_is_refused_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cloud.training.recipes import checkpoint

    checkpoints(tmp_path).save(1, a_state(1))
    monkeypatch.setattr(checkpoint, "CHECKPOINT_BYTES_MAX", 10)
    assert "is over 10" in checkpoints(tmp_path).newest().refused[0]


@pytest.fixture
def full_disk() -> Iterator[None]:
    """Files over 1 kB cannot be written: the same error as a quota's."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_said_with_what_to_free_and_leaves_no_half_file(
    tmp_path: Path, full_disk: None
) -> None:
    with pytest.raises(NoRoom, match=r"no room for \d+ bytes; free that much"):
        checkpoints(tmp_path).save(1, a_state(1))
    assert names(tmp_path) == []


def test_a_place_that_cannot_be_used_is_away_and_no_fault_of_the_job(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(Unavailable, match="file: "):
        checkpoints(tmp_path / "file").newest()
    with pytest.raises(Unavailable, match="file"):
        checkpoints(tmp_path / "file").save(1, a_state(1))


def test_what_a_kill_left_half_written_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".step-000000000003.ckpt.tmp").write_bytes(b"half")
    checkpoints(tmp_path).newest()
    assert names(tmp_path) == []


def test_the_newest_step_of_all_runs_below_a_folder(tmp_path: Path) -> None:
    from cloud.training.recipes.checkpoint import newest_step

    assert newest_step(tmp_path) is None
    checkpoints(tmp_path / "one").save(3, a_state(3))
    checkpoints(tmp_path / "two", OTHER_KEY).save(7, a_state(7))
    checkpoints(tmp_path / "two", OTHER_KEY).save(8, a_state(8)).write_bytes(b"torn")
    assert newest_step(tmp_path) == 7
