"""What patience goes by is kept from fitting, always the same, and weighs rows as fitting does."""

from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np
import pytest

from cloud.training.documents import Fitting

if TYPE_CHECKING:
    from cloud.training.recipes.learning_rows import Rows

pytestmark = pytest.mark.train

PATIENT = Fitting(epochs=4, seed=3, patience=1)


def rows(count: int) -> "Rows":
    """Three classes; a row's number is its first pixels."""
    from cloud.training.recipes.learning_rows import Rows

    number = np.arange(count)
    images = np.zeros((count, 4, 4), np.uint8)
    images[:, 0, 0], images[:, 0, 1] = number // 256, number % 256
    return Rows(
        images=images, labels=number % 3, soft=np.full((count, 2, 3), 1 / 3, np.float32),
        soft_share=np.zeros(count, np.float32), coarse=number % 2 == 0,
        weight=np.where(number % 2 == 0, 3, 1).astype(np.float32), by_person=number % 4 == 0,
    )  # fmt: skip


def test_without_patience_every_row_is_fitted() -> None:
    from cloud.training.recipes.validating import kept_apart

    whole = rows(100)
    assert kept_apart(whole, Fitting(), 1.0) == (whole, None)


@pytest.mark.parametrize(("count", "kept"), [(2, 1), (100, 10), (30_000, 2_000)])
def test_a_tenth_is_kept_and_never_fitted(count: int, kept: int) -> None:
    from cloud.training.recipes.validating import kept_apart

    fitted, _ = kept_apart(rows(count), PATIENT, 1.0)
    again, _ = kept_apart(rows(count), PATIENT, 1.0)
    assert len(fitted) == count - kept == len(np.unique(fitted.images.reshape(-1, 16), axis=0))
    for one in fields(fitted):
        np.testing.assert_array_equal(getattr(fitted, one.name), getattr(again, one.name))


def test_the_loss_is_that_of_the_rows_that_are_kept() -> None:
    import torch
    from torch import Tensor, nn

    from cloud.training.recipes.validating import kept_apart

    class Knows(nn.Module):
        """Right about the rows of even numbers, and sure; of the others it says nothing."""

        def forward(self, images: Tensor) -> Tensor:
            number = (images[:, 0, 0] * 256 + images[:, 0, 1]).long()
            sure = torch.where(number % 2 == 0, 100.0, 0.0)
            return torch.nn.functional.one_hot(number % 3, 3) * sure[:, None]

    fitted, validate = kept_apart(rows(1_000), PATIENT, 1.0)
    assert validate is not None
    kept = set(range(1_000)) - {
        int(image[0, 0]) * 256 + int(image[0, 1]) for image in fitted.images
    }
    even = sum(number % 2 == 0 for number in kept)
    odd = len(kept) - even
    assert validate(Knows()) == pytest.approx(np.log(3) * odd / (3 * even + odd), rel=1e-4)
