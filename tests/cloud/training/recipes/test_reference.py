import numpy as np
import pytest

from cloud.training.recipes import reference
from cloud.training.recipes.field import Field
from shared.features import INPUT_FEATURES
from tests.cloud.training.soft_images import soft_images

IMAGES = soft_images(300)
SAYS = np.full((300, 3), 1 / 3, np.float32)


def bright(shares: np.ndarray) -> Field:
    count = len(shares)
    images = np.minimum(soft_images(count).astype(int) + 60, 255).astype(np.uint8)
    return Field(
        images, np.zeros(count, np.int64), np.full((count, 3), 1 / 3, np.float32),
        np.ones(count, np.uint8), shares,
    )  # fmt: skip


def low_share(sketches: tuple, below: float) -> float:
    sketch = next(s for s in sketches if s.feature == "input_low")
    middle = np.searchsorted(sketch.edges, below)
    return sum(sketch.counts[: middle + 1]) / sum(sketch.counts)


def test_every_feature_has_a_sketch() -> None:
    made = reference.reference(IMAGES, SAYS, None, None)
    assert [s.feature for s in made] == [*INPUT_FEATURES, "confidence", "predicted_class"]
    assert {sum(s.counts) for s in made} == {300}


def test_with_feedback_the_reference_is_the_field_and_a_tenth_of_base_data() -> None:
    field = bright(np.ones(200))
    made = reference.reference(IMAGES, SAYS, field, SAYS[:200])
    assert {sum(s.counts) for s in made} == {reference.COUNTED}
    assert low_share(made, 30.0) == pytest.approx(0.1, abs=0.01)


def test_a_sample_counts_for_as_many_as_it_stands_for() -> None:
    chosen = reference.evenly(np.array([1.0, 3.0, 0.0, 4.0]), 80)
    assert np.bincount(chosen, minlength=4).tolist() == [10, 30, 0, 40]


def test_an_empty_field_is_none() -> None:
    empty = bright(np.ones(4)).taken(np.zeros(4, np.bool_))
    assert reference.reference(IMAGES, SAYS, empty, SAYS[:0]) == reference.reference(
        IMAGES, SAYS, None, None
    )
