import numpy as np
import pytest

from cloud.training.shifts import SHIFTS, shift

IMAGES = np.random.default_rng(1).integers(40, 200, (5, 28, 28), np.uint8)
SEEDED = {"noise 30", "camera fault"}


def test_there_are_six() -> None:
    assert len(SHIFTS) == 6
    assert set(SHIFTS) >= SEEDED


@pytest.mark.parametrize("kind", SHIFTS)
def test_each_gives_other_images_of_the_same_kind_and_the_same_ones_again(kind: str) -> None:
    before = IMAGES.copy()
    shifted = shift(IMAGES, kind)
    assert (shifted.dtype, shifted.shape) == (np.uint8, IMAGES.shape)
    assert all((new != old).mean() > 0.5 for new, old in zip(shifted, IMAGES, strict=True))
    assert np.array_equal(shifted, shift(IMAGES, kind))
    assert np.array_equal(shifted, shift(IMAGES, kind, seed=1)) == (kind not in SEEDED)
    assert np.array_equal(IMAGES, before)


def test_what_leaves_the_range_is_cut_not_wrapped() -> None:
    white = np.full((1, 4, 4), 250, np.uint8)
    assert (shift(white, "brightness +60") == 255).all()
    assert shift(np.zeros((1, 28, 28), np.uint8), "noise 30").min() == 0


def test_the_plain_ones_do_what_their_name_says() -> None:
    grey = np.full((1, 4, 4), 100, np.uint8)
    assert (shift(grey, "brightness +60") == 160).all()
    assert (shift(grey, "contrast x 0.4") == 40).all()
    assert (shift(grey, "blur 1.0") == 100).all()
    edge = np.zeros((1, 28, 28), np.uint8)
    edge[:, :, 14:] = 200
    turned, still = shift(edge, "rotate 20 deg"), edge[:, 14, :].astype(int)
    assert abs(turned[:, 14, :].astype(int) - still).max() < 120  # turned about the middle
    assert (turned[:, 4, :] != edge[:, 4, :]).any()
