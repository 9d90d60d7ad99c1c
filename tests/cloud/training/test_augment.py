"""What training does to its batches; needs torch (`make test-train`)."""

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.cloud.training.soft_images import soft_images

if TYPE_CHECKING:
    from torch import Generator, Tensor

pytestmark = pytest.mark.train

COUNT = 700


def batch() -> "Tensor":
    import torch

    return torch.from_numpy(soft_images(COUNT)).float()


def generator(seed: int = 1) -> "Generator":
    import torch

    return torch.Generator().manual_seed(seed)


def changed(before: "Tensor", after: "Tensor") -> np.ndarray:
    return (before != after).flatten(1).any(1).numpy()


def test_a_flip_says_whom_it_mirrored() -> None:
    from cloud.training import augment

    x = batch()
    flipped, chosen = augment.flip(x, generator())
    assert 0.4 < chosen.float().mean() < 0.6
    assert (flipped[chosen] == x[chosen].flip(2)).all()
    assert (flipped[~chosen] == x[~chosen]).all()


def test_moves_and_holes_bring_in_black_alone() -> None:
    from cloud.training import augment

    x = batch() + 1
    for number in range(20):
        moved = augment.move(x, generator(number))
        assert moved.shape == x.shape
        assert set(moved.unique().tolist()) <= {0.0, *x.unique().tolist()}
    erased = augment.erase(x, generator())
    hole = changed(x, erased)
    assert 0.4 < hole.mean() < 0.6
    assert ((erased == 0).flatten(1).sum(1)[hole] == augment.ERASE_PIXELS**2).all()


def test_a_bad_day_befalls_its_share_and_leaves_whole_levels() -> None:
    from cloud.training import augment

    x = batch()
    before = x.clone()
    shifted = augment.bad_day(x, generator(), 0.35)
    assert 0.25 < changed(x, shifted).mean() <= 0.42
    assert (shifted == shifted.round()).all()
    assert (shifted.min(), shifted.max()) == (0, 255)
    assert (x == before).all()
    assert (augment.bad_day(x, generator(), 0.35) == shifted).all()
    assert (augment.bad_day(x, generator(2), 0.35) != shifted).any()


def test_no_share_is_no_change_and_the_whole_share_is_everybody() -> None:
    from cloud.training import augment

    x = batch()
    assert (augment.bad_day(x, generator(), 0.0) == x).all()
    assert changed(x, augment.bad_day(x, generator(), 1.0)).mean() > 0.9


@pytest.mark.parametrize("number", range(7))
def test_each_kind_of_bad_day_changes_an_image_and_keeps_its_shape(number: int) -> None:
    import torch

    from cloud.training import augment

    x, g = batch(), generator()
    kind = augment._BAD_DAYS[number]
    shifted = kind(x, torch.full((COUNT,), 0.9), g)
    assert shifted.shape == x.shape
    assert torch.isfinite(shifted).all()
    assert changed(x, shifted).all()
