"""Small base data and feedback of three classes, told apart by brightness, for the recipes' tests."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cloud.feedback.data_file import DataRows, write_rows
from tests.cloud.training.soft_images import soft_images

NAMES = ("dark", "grey", "bright")


def pictures(count: int, seed: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """uint8 [N, 28, 28] and labels; the first has a white pixel."""
    labels = np.random.default_rng(seed).integers(0, 3, count)
    images = soft_images(count) // 3 + (labels * 70).astype(np.uint8)[:, None, None]
    images[:1, 0, 0] = 255
    return images.astype(np.uint8), labels


def write_base(path: Path, **changed: NDArray[np.generic]) -> Path:
    train, calibrate = pictures(400, 1), pictures(200, 2)
    arrays: dict[str, NDArray[np.generic]] = {
        "train_images": train[0], "train_labels": train[1],
        "calibrate_images": calibrate[0], "calibrate_labels": calibrate[1],
        "names": np.frombuffer("\n".join(NAMES).encode(), np.uint8),
    }  # fmt: skip
    np.savez(path, **(arrays | changed))
    return path


def feedback(count: int = 240, **changed: NDArray[np.generic]) -> DataRows:
    """As if a quarter were held out, an eighth labelled by people, and half were audits."""
    images, labels = pictures(count, 3)
    number = np.arange(count)
    fields: dict[str, NDArray[np.generic]] = {
        "inputs": images, "labels": labels,
        "soft": (np.eye(3)[labels] * 0.7 + 0.1).astype(np.float32),
        "sources": np.where(number % 8 == 0, 0, 1).astype(np.uint8),
        "shares": np.where(number % 2 == 0, 1.0, 0.2).astype(np.float32),
        "edge_labels": labels, "holdout": number % 4 == 0,
        "captured": number.astype(np.float64),
        "ids": np.array([f"{n:08x}-0000-0000-0000-000000000000" for n in number]),
        "devices": np.array(["cam-1"] * count), "sites": np.array([""] * count),
    }  # fmt: skip
    return DataRows(**(fields | changed))


def write_feedback(path: Path, rows: DataRows) -> Path:
    path.write_bytes(write_rows(rows))
    return path
