import fcntl
import os
from pathlib import Path

import pytest

from cloud.monitoring.log_file import LogFile, claim
from cloud.monitoring.settings import BLOCK_BYTES, InferenceLogSettings


def lines(first: int, count: int) -> bytes:
    return b"".join(b"line %06d\n" % number for number in range(first, first + count))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_full_file_steps_back_and_the_oldest_goes(tmp_path: Path) -> None:
    file = LogFile(tmp_path / "a.log", bytes_max=36, files_max=3)
    for first in range(0, 18, 2):
        assert file.write(lines(first, 2)) == 2
    file.close()
    assert contents(tmp_path) == {
        "a.log": lines(16, 2), "a.log.1": lines(14, 2), "a.log.2": lines(12, 2),
    }  # fmt: skip


def test_one_file_alone_begins_anew(tmp_path: Path) -> None:
    file = LogFile(tmp_path / "a.log", bytes_max=36, files_max=1)
    for first in range(0, 8, 2):
        file.write(lines(first, 2))
    file.close()
    assert contents(tmp_path) == {"a.log": lines(6, 2)}


def test_a_file_from_before_is_gone_on_with_and_counts(tmp_path: Path) -> None:
    for first in range(3):
        file = LogFile(tmp_path / "a.log", bytes_max=30, files_max=2)
        file.write(lines(first, 1))
        file.close()
    assert contents(tmp_path) == {"a.log": lines(2, 1), "a.log.1": lines(0, 2)}


@pytest.mark.parametrize("whole", [b"", lines(0, 1), lines(0, 10_000)])
def test_what_a_kill_left_of_a_line_is_cut_off(tmp_path: Path, whole: bytes) -> None:
    (tmp_path / "a.log").write_bytes(whole + b'{"at":"20')
    file = LogFile(tmp_path / "a.log", bytes_max=10**6, files_max=2)
    file.write(lines(9, 1))
    file.close()
    assert (tmp_path / "a.log").read_bytes() == whole + lines(9, 1)


def test_a_disk_that_is_full_raises_and_is_tried_again(tmp_path: Path) -> None:
    (tmp_path / "a.log").symlink_to("/dev/full")
    file = LogFile(tmp_path / "a.log", bytes_max=10**6, files_max=2)
    for _ in range(2):
        with pytest.raises(OSError, match="No space left"):
            file.write(lines(0, 1))
    file.close()


def test_a_rotation_that_fails_writes_nothing_and_is_made_up_for(tmp_path: Path) -> None:
    file = LogFile(tmp_path / "a.log", bytes_max=20, files_max=2)
    file.write(lines(0, 1))
    (tmp_path / "a.log.1").mkdir()  # a folder is in the way
    for _ in range(2):
        with pytest.raises(OSError, match="directory"):
            file.write(lines(1, 1))
    (tmp_path / "a.log.1").rmdir()
    assert file.write(lines(2, 1)) == 1
    file.close()
    assert contents(tmp_path) == {"a.log": lines(2, 1), "a.log.1": lines(0, 1)}


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    file = LogFile(tmp_path / "a.log", bytes_max=20, files_max=2)
    file.write(lines(0, 1))
    file.close()
    assert (tmp_path / "a.log").stat().st_mode & 0o077 == 0


def test_each_process_of_a_folder_has_a_file_of_its_own(tmp_path: Path) -> None:
    first, held = claim(tmp_path / "state")
    second, also_held = claim(tmp_path / "state")
    assert (first, second) == ("inference", "inference-2")
    os.close(held)
    again, held = claim(tmp_path / "state")
    assert again == "inference"
    for lock in (held, also_held):
        fcntl.flock(lock, fcntl.LOCK_UN)
        os.close(lock)


def test_the_smallest_file_that_may_be_set_takes_a_block() -> None:
    with pytest.raises(ValueError, match="bytes_max"):
        InferenceLogSettings(bytes_max=BLOCK_BYTES)
