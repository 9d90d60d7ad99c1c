"""Labelled base data that a worker has: what weights learn from, and apart what calibrates them.

A folder is Fashion-MNIST as Debian ships it; a file is an `.npz` of uint8 images and their labels:
`train_images`, `train_labels`, `calibrate_images`, `calibrate_labels`; and `names`, the labels' names
as UTF-8 bytes (uint8), one a line: a file of plain numbers needs no pickle.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cloud.training import fashion_mnist
from cloud.training.fashion_mnist import Split
from shared.errors import Malformed, TooLarge, Unknown
from shared.imaging.npy import parse_npy
from shared.imaging.npz import unpack_npz

FILE_BYTES_MAX = 1 << 30
UNPACKED_BYTES_MAX = 4 << 30
ROWS_MIN = 32  # of each part: below it nothing that is measured on it means anything
_ARRAYS = ("train_images", "train_labels", "calibrate_images", "calibrate_labels", "names")


@dataclass(frozen=True, slots=True)
class BaseData:
    """Images are uint8 [N, H, W] of one size; labels index `names`."""

    train: Split
    calibrate: Split
    names: tuple[str, ...]
    sha256: str
    """Of the training images and labels."""
    source: str
    """For lineage and card."""

    @property
    def image_shape(self) -> tuple[int, int]:
        height, width = self.train.images.shape[1:]
        return int(height), int(width)


def load(path: Path | None) -> BaseData:
    """Raises `Unknown` when there is none, `Malformed` or `TooLarge` when it is not such data."""
    if path is None:
        raise Unknown("base: the job names no base data, and this recipe needs some")
    if path.is_dir():
        found = fashion_mnist.load(path)
        source = "Fashion-MNIST (Debian dataset-fashion-mnist)"
        return _checked(found.train, found.calibrate, fashion_mnist.LABELS, source, path)
    if not path.is_file():
        raise Unknown(f"{path}: there is no such base data; name a folder or an .npz file")
    arrays = _arrays(path)
    train, calibrate = (
        Split(_images(arrays[f"{part}_images"], path), _labels(arrays[f"{part}_labels"], path))
        for part in ("train", "calibrate")
    )
    return _checked(train, calibrate, _names(arrays["names"], path), path.name, path)


def _arrays(path: Path) -> dict[str, NDArray[np.generic]]:
    if (size := path.stat().st_size) > FILE_BYTES_MAX:
        raise TooLarge(f"{path}: {size} bytes; at most {FILE_BYTES_MAX} are read")
    packed = unpack_npz(
        path.read_bytes(), str(path), bytes_max=UNPACKED_BYTES_MAX, arrays_max=len(_ARRAYS)
    )
    if missing := [name for name in _ARRAYS if f"{name}.npy" not in packed]:
        raise Malformed(f"{path}: lacks {', '.join(missing)}; base data has {', '.join(_ARRAYS)}")
    return {name: parse_npy(packed[f"{name}.npy"], where=f"{path}: {name}") for name in _ARRAYS}


def _names(array: NDArray[np.generic], path: Path) -> tuple[str, ...]:
    try:
        names = tuple(array.tobytes().decode().splitlines())
    except UnicodeDecodeError as error:
        raise Malformed(f"{path}: names: {error}; give them as UTF-8, one a line") from error
    if len(names) < 2 or len(set(names)) != len(names):
        raise Malformed(f"{path}: names: {len(names)} of them; give two or more that differ")
    return names


def _images(array: NDArray[np.generic], path: Path) -> NDArray[np.uint8]:
    if array.dtype != np.uint8 or array.ndim != 3:
        raise Malformed(
            f"{path}: images are {array.dtype}{list(array.shape)}; give uint8 [N, H, W]"
        )
    return np.asarray(array, np.uint8)


def _labels(array: NDArray[np.generic], path: Path) -> NDArray[np.int64]:
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise Malformed(f"{path}: labels are {array.dtype}{list(array.shape)}; give integers [N]")
    return array.astype(np.int64)


def _checked(
    train: Split, calibrate: Split, names: tuple[str, ...], source: str, path: Path
) -> BaseData:
    for part, split in (("train", train), ("calibrate", calibrate)):
        images, labels = split.images, split.labels
        if images.shape[1:] != train.images.shape[1:] or len(labels) != len(images):
            raise Malformed(
                f"{path}: {part}: {list(images.shape)} images for {len(labels)} labels; both parts "
                "need images of one size and a label for each"
            )
        if len(images) < ROWS_MIN:
            raise Malformed(f"{path}: {part}: {len(images)} images; give {ROWS_MIN} or more")
        if labels.min() < 0 or labels.max() >= len(names):
            raise Malformed(
                f"{path}: {part}: labels {labels.min()}..{labels.max()} for {len(names)} names"
            )
        if len(np.unique(labels)) < 2:
            raise Malformed(f"{path}: {part}: every image has label {labels[0]}; give two or more")
    digest = hashlib.sha256(train.images.tobytes() + train.labels.tobytes()).hexdigest()
    return BaseData(train, calibrate, names, digest, source)
