"""Fashion-MNIST as Debian's `dataset-fashion-mnist` ships it, and its fixed splits.

Xiao, Rasul, Vollgraf 2017 (arXiv:1708.07747), MIT licence, Zalando SE. 60,000 + 10,000 grey
images of 28 x 28 pixels in ten classes.
"""

import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shared.errors import Malformed, Unknown
from shared.imaging.idx import parse_idx

FOLDER = Path("/usr/share/datasets/fashion-mnist")
LABELS = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
CALIBRATE_COUNT = 5_000
SPLIT_SEED = 7


@dataclass(frozen=True, slots=True)
class Split:
    images: NDArray[np.uint8]  # [N, 28, 28]
    labels: NDArray[np.int64]  # [N], 0..9

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, slots=True)
class Dataset:
    """`train` fits weights, `calibrate` fits everything else, `test` is read once, at the end."""

    train: Split
    calibrate: Split
    test: Split


def load(folder: Path = FOLDER) -> Dataset:
    """Read the four files and cut the 60,000 into 55,000 to train and 5,000 to calibrate.

    Raises `Unknown` when the package is not installed, `Malformed` when a file does not parse.
    """
    full, test = _read(folder, "train"), _read(folder, "t10k")
    order = np.random.default_rng(SPLIT_SEED).permutation(len(full))
    calibrate, train = order[:CALIBRATE_COUNT], order[CALIBRATE_COUNT:]
    return Dataset(
        train=Split(full.images[train], full.labels[train]),
        calibrate=Split(full.images[calibrate], full.labels[calibrate]),
        test=test,
    )


def _read(folder: Path, prefix: str) -> Split:
    images = _idx(folder / f"{prefix}-images-idx3-ubyte.gz")
    labels = _idx(folder / f"{prefix}-labels-idx1-ubyte.gz")
    if images.ndim != 3 or labels.shape != images.shape[:1]:
        raise Malformed(f"{folder}/{prefix}-*: {images.shape} images for {labels.shape} labels")
    return Split(images, labels.astype(np.int64))


def _idx(path: Path) -> NDArray[np.uint8]:
    if not path.exists():
        raise Unknown(f"{path} is not here; install it: apt-get install dataset-fashion-mnist")
    try:
        content = gzip.decompress(path.read_bytes())
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise Malformed(f"{path}: {error}; install dataset-fashion-mnist anew") from error
    return parse_idx(content, where=path.name)
