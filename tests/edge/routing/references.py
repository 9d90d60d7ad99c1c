"""A made-up reference: every feature of inputs and answers, in even bins with rare outermost ones."""

import numpy as np

from cloud.training.references import reference
from shared.bundle.manifest import Sketch

CLASSES = 4


def images(count: int, seed: int = 0) -> "np.typing.NDArray[np.uint8]":
    """Grey noise [count, 8, 8] around levels that differ from image to image."""
    rng = np.random.default_rng(seed)
    middle = rng.normal(120, 15, (count, 1, 1))
    return np.clip(rng.normal(middle, 20, (count, 8, 8)), 0, 255).astype(np.uint8)


def probabilities(count: int, seed: int = 0) -> "np.typing.NDArray[np.float32]":
    rng = np.random.default_rng(seed)
    return rng.dirichlet([0.5] * CLASSES, count).astype(np.float32)


def made(count: int = 4_000) -> tuple[Sketch, ...]:
    return reference(images(count), probabilities(count))
