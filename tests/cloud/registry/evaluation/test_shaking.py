import numpy as np
import pytest

from cloud.registry.evaluation.inputs import domain_of
from cloud.registry.evaluation.shaking import KINDS, Strengths, boundary_inputs, shaken

STRENGTHS = Strengths(noise=0.1, blur=1.0, brightness=0.2)
IMAGES = np.random.default_rng(0).integers(0, 256, (10, 12, 12), np.uint8)


def change(rows, kind, seed=0, first_row=0):
    return shaken(rows, first_row, kind, STRENGTHS, domain_of(rows), seed)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "inputs",
    [IMAGES, IMAGES[..., None].repeat(3, -1), IMAGES[:, None], IMAGES.astype(np.float32) / 255,
     IMAGES.astype(np.float16)],
)  # fmt: skip
def test_a_change_keeps_dtype_shape_and_range(kind, inputs):
    found = change(inputs, kind)
    assert (found.dtype, found.shape) == (inputs.dtype, inputs.shape)
    domain = domain_of(inputs)
    assert found.min() >= domain.low
    assert found.max() <= domain.high
    assert not np.array_equal(found, inputs)


def test_noise_is_a_row_s_own_whatever_batch_it_comes_in():
    whole = change(IMAGES, "noise", seed=5)
    assert np.array_equal(change(IMAGES[4:6], "noise", seed=5, first_row=4), whole[4:6])
    assert not np.array_equal(change(IMAGES, "noise", seed=6), whole)


def test_noise_has_the_strength_that_is_said():
    grey = np.full((50, 20, 20), 128, np.uint8)
    noisy = change(grey, "noise").astype(float)
    assert noisy.std() == pytest.approx(25.5, rel=0.03)
    assert noisy.mean() == pytest.approx(128, abs=0.3)  # rounded, not cut


def test_blur_is_a_gaussian_with_repeated_edges():
    from scipy import ndimage  # noqa: PLC0415

    values = IMAGES.astype(np.float32) / 255
    expected = ndimage.gaussian_filter(values, (0, 1.0, 1.0), mode="nearest", truncate=4)
    assert np.allclose(change(values, "blur"), np.clip(expected, 0, 1), atol=1e-5)


def test_blur_does_not_mix_channels():
    image = np.zeros((1, 12, 12, 3), np.uint8)
    image[..., 0] = 200
    assert change(image, "blur")[..., 1:].max() == 0


def test_brightness_goes_up_and_down():
    grey = np.full((1, 10, 10), 100, np.uint8)
    assert (change(grey, "brighter") == 151).all()
    assert (change(grey, "darker") == 49).all()


@pytest.mark.parametrize(
    ("inputs", "kinds"),
    [
        (np.zeros((2, 5, 64), np.float32), ("blur", "brighter", "darker")),
        (np.zeros((2, 7), np.float32), ("blur", "brighter", "darker")),
        (np.zeros((2, 8, 8, 5), np.uint8), ("blur", "brighter", "darker")),
        (np.arange(40).reshape(2, 20), (*KINDS, "fgsm")),
        (np.zeros((2, 12, 12), np.int16), (*KINDS, "fgsm")),
        (np.zeros((2, 12, 12), np.float32), (*KINDS, "fgsm")),
    ],
)
def test_changes_that_make_no_sense_say_why(inputs, kinds):
    domain = domain_of(inputs)
    assert all(domain.why_not(kind) for kind in kinds)


def test_features_take_noise_and_steps():
    domain = domain_of(np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32))
    assert domain.why_not("noise") == ""
    assert domain.why_not("fgsm") == ""


def test_boundary_values_are_those_of_the_dtype_for_images_and_of_the_data_otherwise():
    images = boundary_inputs((2, 2), domain_of(np.full((3, 2, 2), 7, np.uint8)))
    assert images.reshape(3, 4).tolist() == [[0] * 4, [255] * 4, [0, 255, 0, 255]]
    codes = boundary_inputs((3,), domain_of(np.array([[5, 9, 7]], np.int64)))
    assert codes.tolist() == [[5] * 3, [9] * 3, [5, 9, 5]]
    assert codes.dtype == np.int64


def test_large_codes_stay_within_the_data():
    high = 16_777_219  # float32 would round it up
    codes = boundary_inputs((3,), domain_of(np.array([[0, 1, high]], np.int64)))
    assert codes.max() == high
