import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cloud.training import fashion_mnist
from shared.errors import Malformed, Unknown

FULL, TEST, CALIBRATE = 60, 10, 20


def put(folder: Path, name: str, array: NDArray[np.uint8]) -> None:
    head = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    (folder / f"{name}-ubyte.gz").write_bytes(gzip.compress(head + array.tobytes()))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Image k is all k, and its label k modulo 10."""
    monkeypatch.setattr(fashion_mnist, "CALIBRATE_COUNT", CALIBRATE)
    for prefix, first, count in (("train", 0, FULL), ("t10k", 100, TEST)):
        numbers = np.arange(first, first + count, dtype=np.uint8)
        put(tmp_path, f"{prefix}-images-idx3", np.tile(numbers[:, None, None], (1, 4, 4)))
        put(tmp_path, f"{prefix}-labels-idx1", numbers % np.uint8(10))
    return tmp_path


def numbers(split: fashion_mnist.Split) -> set[int]:
    assert (split.images.dtype, split.labels.dtype) == (np.uint8, np.int64)
    assert (split.images == split.images[:, :1, :1]).all()
    assert (split.labels == split.images[:, 0, 0] % 10).all()
    assert len(set(split.images[:, 0, 0])) == len(split)
    return {int(n) for n in split.images[:, 0, 0]}


def test_the_splits_are_disjoint_and_leave_nothing_out(folder: Path) -> None:
    data = fashion_mnist.load(folder)
    assert len(data.train) == FULL - CALIBRATE
    assert len(data.calibrate) == CALIBRATE
    train, calibrate, test = map(numbers, (data.train, data.calibrate, data.test))
    assert train | calibrate == set(range(FULL))
    assert not train & calibrate
    assert test == set(range(100, 100 + TEST))
    assert calibrate != set(range(CALIBRATE))  # drawn, not the first ones


def test_the_splits_are_the_same_every_time(folder: Path) -> None:
    one, two = fashion_mnist.load(folder), fashion_mnist.load(folder)
    assert np.array_equal(one.calibrate.images, two.calibrate.images)
    assert np.array_equal(one.train.labels, two.train.labels)


def test_what_is_not_installed_is_named_with_its_package(tmp_path: Path) -> None:
    with pytest.raises(Unknown, match="is not here; install it: apt-get install dataset-fashion"):
        fashion_mnist.load(tmp_path / "none")


def test_labels_that_do_not_fit_are_refused(folder: Path) -> None:
    put(folder, "train-labels-idx1", np.zeros(FULL - 1, np.uint8))
    with pytest.raises(Malformed, match=r"\(60, 4, 4\) images for \(59,\) labels"):
        fashion_mnist.load(folder)


@pytest.mark.parametrize("content", [b"no gzip", gzip.compress(b"x" * 99)[:20], b""])
def test_a_broken_file_is_refused(folder: Path, content: bytes) -> None:
    (folder / "t10k-images-idx3-ubyte.gz").write_bytes(content)
    with pytest.raises(Malformed, match="t10k-images-idx3-ubyte"):
        fashion_mnist.load(folder)
