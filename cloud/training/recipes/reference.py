"""What a new model's devices are expected to see: the reference that drift is measured against. Pure.

A model fitted to the field is there for the field as it is now. So the counts are of the feedback,
each sample weighted by how many it stands for, and a tenth of base data, whose inputs must stay
ordinary when the weather gets better again.

Four audits of one sample in a hundred would stand for four hundred, and whatever these four show
would be a bin of its own. So samples stand for others as far as their kind is known, which one
number says: of so many of a kind half is believed. And a reference has no more counts than equally
weighted samples would tell as much (Kish, Survey Sampling, 1965, 11.7): drift is told from chance by
how many there are.
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
"""Samples that a reference counts at most: as many as the calibration split of the first models has."""
KNOWN: Final = 30.0
"""Samples sent with about one probability, of which half of what they stand for is believed."""


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
        (1 - BASE_SHARE) * _shares_of_all(stands_for(field.shares)),
    ])  # fmt: skip
    chosen = evenly(weights, COUNTED)
    worth = min(COUNTED, round(1 / (weights**2).sum()))
    return tuple(_worth(one, worth) for one in references.reference(images[chosen], says[chosen]))


def stands_for(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """[N]: for how many of what devices see each is taken; `shares` [N] with which they were sent, of which
    those within a factor of two are of one kind.
    """
    kinds = np.floor(-np.log2(shares)).astype(np.intp)
    there = np.bincount(kinds)[kinds]
    return 1 + (1 / shares - 1) * there / (there + KNOWN)


def _shares_of_all(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(weights / weights.sum())


def _worth(sketch: Sketch, count: int) -> Sketch:
    """With so many counts in all, spread as its own."""
    reached = np.cumsum(sketch.counts)
    counts = np.diff(np.round(reached * (count / reached[-1])), prepend=0)
    return sketch.model_copy(update={"counts": tuple(int(one) for one in counts)})


def evenly(weights: NDArray[np.float64], count: int) -> NDArray[np.intp]:
    """`count` indices, each as often as its weight says, give or take one (systematic sampling)."""
    reached = np.cumsum(weights) / weights.sum()
    places = (np.arange(count) + 0.5) / count
    return np.minimum(np.searchsorted(reached, places), len(weights) - 1)
