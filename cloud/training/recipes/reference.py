"""What a new model's devices are expected to see: the reference that drift is measured against. Pure.

A model fitted to the field is there for the field as it is now. So the counts are of the feedback,
each sample weighted by how many it stands for, and a tenth of base data, whose inputs must stay
ordinary when the weather gets better again.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloud.training import bundles
from cloud.training.recipes.field import Field
from shared.bundle.manifest import Sketch
from shared.features import INPUT_FEATURES, input_features

BASE_SHARE: Final = 0.1
"""Of the reference, when there is feedback; 1 when there is none."""
COUNTED: Final = 5_000
"""Samples that a reference counts: as many as the calibration split of the first models has."""


def reference(
    base_images: NDArray[np.uint8], base_says: NDArray[np.float32],
    field: Field | None, field_says: NDArray[np.float32] | None,
) -> tuple[Sketch, ...]:  # fmt: skip
    """One sketch a feature; `*_says` are calibrated probabilities [N, classes] of these images."""
    images, says = base_images, base_says
    chosen = np.arange(len(base_images))
    if field is not None and field_says is not None and len(field):
        images = np.concatenate([base_images, field.images])
        says = np.concatenate([base_says, field_says])
        weights = np.concatenate([
            np.full(len(base_images), BASE_SHARE / len(base_images)),
            field.weights / len(field) * (1 - BASE_SHARE),
        ])  # fmt: skip
        chosen = evenly(weights, COUNTED)
    inputs = np.array([input_features(image) for image in images])[chosen]
    says = says[chosen]
    return (
        *(bundles.sketch(name, inputs[:, n]) for n, name in enumerate(INPUT_FEATURES)),
        bundles.sketch("confidence", says.max(1)),
        bundles.sketch("predicted_class", says.argmax(1).astype(np.float64)),
    )


def evenly(weights: NDArray[np.float64], count: int) -> NDArray[np.intp]:
    """`count` indices, each as often as its weight says, give or take one (systematic sampling)."""
    reached = np.cumsum(weights) / weights.sum()
    places = (np.arange(count) + 0.5) / count
    return np.minimum(np.searchsorted(reached, places), len(weights) - 1)
