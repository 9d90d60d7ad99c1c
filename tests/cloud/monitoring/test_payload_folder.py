import os
from pathlib import Path

import numpy as np
import pytest

from cloud.monitoring.payload_folder import PayloadFolder
from cloud.serving.caches.content import digest_of
from cloud.serving.job import Rows


def rows(number: int) -> Rows:
    return np.full((1, 4, 4), number, np.uint8)


def keep(folder: PayloadFolder, number: int) -> bool:
    return folder.keep(digest_of(rows(number)), rows(number))


def there(folder: Path) -> list[int]:
    found = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
    return sorted(int(np.load(path)[0, 0, 0]) for path in found if path.suffix == ".npy")


ONE = 128 + 16  # header and pixels


def test_rows_come_back_as_they_were_under_the_name_of_their_digest(tmp_path: Path) -> None:
    keep(PayloadFolder(tmp_path / "p", ONE), 7)
    found = np.load(tmp_path / "p" / f"{digest_of(rows(7)).hex()}.npy", allow_pickle=False)
    assert found.dtype == np.uint8
    assert (found == rows(7)).all()


def test_bytes_are_bounded_and_the_oldest_go(tmp_path: Path) -> None:
    folder = PayloadFolder(tmp_path / "p", 3 * ONE)
    for number in range(10):
        assert keep(folder, number)
        assert sum(path.stat().st_size for path in (tmp_path / "p").iterdir()) <= 3 * ONE
    assert there(tmp_path / "p") == [7, 8, 9]


def test_files_are_bounded(tmp_path: Path) -> None:
    folder = PayloadFolder(tmp_path / "p", 10**6, files_max=2)
    for number in range(5):
        keep(folder, number)
    assert there(tmp_path / "p") == [3, 4]


def test_the_same_rows_are_kept_once(tmp_path: Path) -> None:
    folder = PayloadFolder(tmp_path / "p", 2 * ONE)
    for number in (1, 2, 2, 2):
        assert keep(folder, number)
    assert there(tmp_path / "p") == [1, 2]


def test_rows_over_the_bound_push_nobody_out(tmp_path: Path) -> None:
    folder = PayloadFolder(tmp_path / "p", 2 * ONE)
    keep(folder, 1)
    large = np.zeros((1, 400), np.uint8)
    assert not folder.keep(digest_of(large), large)
    assert there(tmp_path / "p") == [1]


def test_what_is_there_from_before_counts_and_strangers_are_left_alone(tmp_path: Path) -> None:
    folder = PayloadFolder(tmp_path / "p", 10**6)
    for number in range(4):
        keep(folder, number)
        path = tmp_path / "p" / f"{digest_of(rows(number)).hex()}.npy"
        os.utime(path, (number, number))
    (tmp_path / "p" / "notes.txt").write_text("mine")
    (tmp_path / "p" / "00.npy.part").write_bytes(b"half")
    keep(PayloadFolder(tmp_path / "p", 3 * ONE), 9)
    assert there(tmp_path / "p") == [2, 3, 9]
    assert (tmp_path / "p" / "notes.txt").exists()
    assert not (tmp_path / "p" / "00.npy.part").exists()


def test_a_folder_that_cannot_be_written_raises_and_counts_nothing(tmp_path: Path) -> None:
    folder = PayloadFolder(tmp_path / "p", 2 * ONE)
    keep(folder, 1)
    (tmp_path / "p" / f"{digest_of(rows(2)).hex()}.npy.part").mkdir()
    with pytest.raises(OSError, match="directory"):
        keep(folder, 2)
    (tmp_path / "p" / f"{digest_of(rows(2)).hex()}.npy.part").rmdir()
    assert keep(folder, 2)
    assert there(tmp_path / "p") == [1, 2]
