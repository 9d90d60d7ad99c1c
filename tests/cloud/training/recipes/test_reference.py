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
    (counted,) = {sum(s.counts) for s in made}
    assert counted == pytest.approx(
        1 / (0.1**2 / 300 + 0.9**2 / 200), abs=1
    )  # what all of them tell
    assert low_share(made, 30.0) == pytest.approx(0.1, abs=0.01)


def test_a_few_rare_audits_are_no_bin_of_their_own() -> None:
    """Of 1,080 samples four were audited at one in a hundred: they would be a quarter of the field."""
    shares = np.ones(1080)
    shares[:4] = 0.01
    top = np.linspace(0.4, 0.8, 1080)
    top[:4] = 0.9
    says = np.stack([top, (1 - top) / 2, (1 - top) / 2], axis=1).astype(np.float32)
    made = reference.reference(IMAGES, SAYS, bright(shares), says)
    sketch = next(s for s in made if s.feature == "confidence")
    sure = sum(sketch.counts[int(np.searchsorted(sketch.edges, 0.85)) :]) / sum(sketch.counts)
    assert 4 / 1080 < sure < 0.12  # a bin is a twentieth
    assert 500 < sum(sketch.counts) < 1080


def test_many_rare_audits_stand_for_the_field() -> None:
    """And a reference of them is worth no more than they are."""
    shares = np.where(np.arange(400) < 200, 0.01, 1.0)
    stand_for = reference.stands_for(shares)
    assert stand_for[200:].tolist() == [1.0] * 200
    assert stand_for[:200].sum() / stand_for.sum() == pytest.approx(0.99, abs=0.005)
    made = reference.reference(IMAGES, SAYS, bright(shares), np.full((400, 3), 1 / 3, np.float32))
    assert 200 < sum(made[0].counts) < 300


def test_shares_that_hardly_differ_are_of_one_kind() -> None:
    shares = np.linspace(0.0101, 0.0119, 90)
    assert (reference.stands_for(shares) / (1 / shares)).min() > 0.7


def test_a_sample_counts_for_as_many_as_it_stands_for() -> None:
    chosen = reference.evenly(np.array([1.0, 3.0, 0.0, 4.0]), 80)
    assert np.bincount(chosen, minlength=4).tolist() == [10, 30, 0, 40]


def test_an_empty_field_is_none() -> None:
    empty = bright(np.ones(4)).taken(np.zeros(4, np.bool_))
    assert reference.reference(IMAGES, SAYS, empty, SAYS[:0]) == reference.reference(
        IMAGES, SAYS, None, None
    )
