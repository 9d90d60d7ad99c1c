from pathlib import Path

import numpy as np
import pytest

from cloud.training.recipes import base_data
from shared.errors import HybridgeError
from tests.cloud.training.recipes.materials import NAMES, pictures, write_base


def test_a_file_of_base_data_is_read(tmp_path: Path) -> None:
    base = base_data.load(write_base(tmp_path / "base.npz"))
    assert base.names == NAMES
    assert (len(base.train), len(base.calibrate)) == (400, 200)
    assert base.image_shape == (28, 28)
    assert base.sha256 == base_data.load(tmp_path / "base.npz").sha256


IMAGES, LABELS = pictures(400, 1)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"train_images": IMAGES.astype(np.float32)}, "images are float32"),
        ({"train_labels": LABELS.astype(np.float32)}, "labels are float32"),
        ({"train_labels": LABELS[:-1]}, "for 399 labels"),
        ({"train_images": IMAGES[:, :20]}, "images of one size"),
        ({"train_labels": LABELS + 1}, r"labels 1\.\.3 for 3 names"),
        ({"train_labels": LABELS * 0}, "every image has label 0"),
        ({"train_images": IMAGES[:9], "train_labels": LABELS[:9]}, "9 images; give 32 or more"),
        ({"names": np.frombuffer(b"same\nsame", np.uint8)}, "two or more that differ"),
        ({"names": np.frombuffer(b"\xff\xfe", np.uint8)}, "as UTF-8"),
    ],
)
def test_base_data_that_does_not_fit_is_refused_in_words(
    tmp_path: Path, changed: dict[str, np.ndarray], words: str
) -> None:
    with pytest.raises(HybridgeError, match=words):
        base_data.load(write_base(tmp_path / "base.npz", **changed))


def test_a_file_without_all_arrays_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "base.npz", train_images=IMAGES)
    with pytest.raises(HybridgeError, match="lacks train_labels, calibrate_images"):
        base_data.load(tmp_path / "base.npz")


def test_none_and_a_wrong_path_are_refused(tmp_path: Path) -> None:
    with pytest.raises(HybridgeError, match="names no base data"):
        base_data.load(None)
    with pytest.raises(HybridgeError, match="there is no such base data"):
        base_data.load(tmp_path / "nothing.npz")
