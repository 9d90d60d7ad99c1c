"""The same numbers as by their definitions, over every shape."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from shared.features import _plan, input_features, nothing_to_see

IMAGE = np.random.default_rng(1).integers(0, 256, (28, 28)).astype(np.uint8)


@given(hnp.arrays(np.uint8, hnp.array_shapes(min_dims=2, max_dims=2, max_side=20)))
def test_small_images_by_definition(image: NDArray[np.uint8]) -> None:
    mean, std, low, detail = input_features(image)
    values = image.astype(float)
    assert mean == pytest.approx(values.mean(), rel=1e-5, abs=1e-5)
    assert std == pytest.approx(values.std(), rel=1e-3, abs=0.1)
    assert low == np.sort(image, axis=None)[image.size // 10]
    across = np.abs(np.diff(values, axis=1))
    assert detail == pytest.approx(across.mean() if across.size else 0.0, rel=1e-5)


def test_of_a_larger_image_every_third_value_makes_the_percentile() -> None:
    assert input_features(IMAGE)[2] == np.sort(IMAGE.reshape(-1)[::3])[26]


def test_colours_of_one_pixel_are_no_neighbours() -> None:
    striped = np.tile(np.array([0, 100, 200], np.uint8), (8, 8, 1))
    assert input_features(striped)[3] == 0.0
    coloured = np.stack([IMAGE, IMAGE, IMAGE], axis=-1)
    assert input_features(coloured)[3] == pytest.approx(input_features(IMAGE)[3], rel=1e-5)
    assert input_features(IMAGE[..., None]) == input_features(IMAGE) == input_features(IMAGE[None])


@pytest.mark.parametrize(
    "shape", [(), (1,), (0,), (0, 3), (7,), (5000,), (20_000,), (1, 1, 3), (300, 400, 3), (2, 9000)]
)
def test_any_shape(shape: tuple[int, ...]) -> None:
    features = input_features(np.full(shape, 50, np.uint8))
    filled = 0.0 if 0 in shape else 50.0
    assert features == pytest.approx((filled, 0.0, filled, 0.0), abs=1e-3)
    assert nothing_to_see(features)
    assert not nothing_to_see(input_features(IMAGE))


def test_of_a_large_input_a_part_says_the_same() -> None:
    large = np.random.default_rng(2).integers(0, 256, (1000, 800, 3)).astype(np.uint8)
    assert input_features(large) == pytest.approx((127.5, 73.9, 25.0, 85.3), rel=0.06)


@pytest.mark.parametrize(
    "shape", [(10**7,), (3, 10**6), (10**6, 3), (2000, 2000, 3), (10**5, 40, 1)]
)
def test_what_is_looked_at_is_bounded_whatever_the_shape(shape: tuple[int, ...]) -> None:
    width, step, every, size, pairs, ones, _ = _plan(shape)
    assert 2_000 <= size == len(ones) <= 9_000
    assert 0 < pairs < size
    assert width * every * step > 0


def test_a_full_white_input_has_no_spread_by_rounding() -> None:
    assert nothing_to_see(input_features(np.full((64, 64), 255, np.uint8)))
    assert nothing_to_see(input_features(np.full((64, 64), 77, np.uint8)))


@given(st.sampled_from([np.nan, np.inf, -np.inf, 3e38]))
def test_what_is_no_number_is_none_and_warns_nobody(value: float) -> None:
    image = np.full((28, 28), 1.0, np.float32)
    image[3, 4] = value
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        features = input_features(image)  # type: ignore[arg-type]  # a bundle may take floats
    assert not all(np.isfinite(features)) or not nothing_to_see(features)
