import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cloud.demo.run import load_images
from shared.errors import Malformed

ROOT = Path(__file__).parents[3]


def test_without_models_it_says_what_to_do(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cloud.cli", "demo", "--models", str(tmp_path / "none")],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    images = tmp_path / "none" / "fashion-mnist-test-2000.npz"
    assert done.stderr == (
        f"error: {images} is not here; run the demo in a checkout, or name --models\n"
    )


@pytest.mark.parametrize("content", ["other arrays", "one array", "text", "half", "nothing"])
def test_images_that_are_something_else_are_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "fashion-mnist-test-2000.npz"
    with path.open("wb") as file:
        match content:
            case "other arrays":
                np.savez(file, pictures=np.zeros(3))
            case "one array":
                np.save(file, np.zeros(3))
            case "text":
                file.write(b"images, labels")
            case "half":
                np.savez(file, images=np.zeros((9, 28, 28), np.uint8), labels=np.zeros(9))
                file.truncate(2_000)
    with pytest.raises(Malformed, match="does not hold `images` and `labels`; restore it") as said:
        load_images(path)
    assert str(said.value).startswith(str(path))


def test_images_and_labels_are_read(tmp_path: Path) -> None:
    path = tmp_path / "images.npz"
    np.savez(path, images=np.ones((2, 28, 28), np.uint8), labels=np.array([3, 9], np.uint8))
    data = load_images(path)
    assert (data.images.dtype, data.images.shape) == (np.uint8, (2, 28, 28))
    assert (data.labels.dtype, data.labels.tolist()) == (np.int64, [3, 9])
