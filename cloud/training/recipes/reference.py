"""What a new model's devices are expected to see: the reference that drift is measured against. Pure.

A model fitted to the field is there for the field as it is now. So the counts are of the feedback,
each sample weighted by how many it stands for, and a tenth of base data, whose inputs must stay
ordinary when the weather gets better again.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloud.training import references
from cloud.training.recipes.field import Field
from shared.bundle.manifest import Sketch

BASE_SHARE: Final = 0.1
"""Of the reference, when there is feedback; 1 when there is none."""
COUNTED: Final = 5_000
"""Samples that a reference counts: as many as the calibration split of the first models has."""


def reference(
    base_images: NDArray[np.uint8], base_says: NDArray[np.float32],
    field: Field | None, field_says: NDArray[np.float32] | None,
) -> tuple[Sketch, ...]:  # fmt: skip
    """One sketch a feature; `*_says` are calibrated probabilities [N, classes] of these images."""
    if field is None or field_says is None or not len(field):
        return references.reference(base_images, base_says)
    images = np.concatenate([base_images, field.images])
    says = np.concatenate([base_says, field_says])
    weights = np.concatenate([
        np.full(len(base_images), BASE_SHARE / len(base_images)),
        field.weights / len(field) * (1 - BASE_SHARE),
    ])  # fmt: skip
    chosen = evenly(weights, COUNTED)
    return references.reference(images[chosen], says[chosen])


def evenly(weights: NDArray[np.float64], count: int) -> NDArray[np.intp]:
    """`count` indices, each as often as its weight says, give or take one (systematic sampling)."""
    reached = np.cumsum(weights) / weights.sum()
    places = (np.arange(count) + 0.5) / count
    return np.minimum(np.searchsorted(reached, places), len(weights) - 1)
