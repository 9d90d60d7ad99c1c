"""What the field looks like is found from the field; needs torch (`make test-train`)."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from cloud.training.recipes.field import Field
from cloud.training.shifts import shift
from shared.bundle.reader import open_bundle

if TYPE_CHECKING:
    from cloud.training.recipes.likeness import Likeness

pytestmark = pytest.mark.train

MODELS = Path(__file__).parents[4] / "models"
IMAGES = np.load(MODELS / "fashion-mnist-test-2000.npz")["images"]


def like(images: np.ndarray) -> "Likeness":
    from cloud.training.recipes import starting
    from cloud.training.recipes.likeness import likeness

    bundle = open_bundle(MODELS / "fashion-edge")
    network = starting.network_of(starting.fp32_graph(bundle), IMAGES[:500], bundle.where)
    count = len(images)
    field = Field(
        images, np.zeros(count, np.int64), np.full((count, 10), 0.1, np.float32),
        np.ones(count, np.uint8), np.ones(count),
    )  # fmt: skip
    return likeness(network, IMAGES[:1_000], field, 0)


@pytest.mark.parametrize(
    ("kind", "found", "strengths"),
    # A rotation by 20 of -25 to 25 degrees, a blur of 1.0 of 0.3 to 1.2 pixels, 60 levels of -75 to 75,
    # noise of 30 of 0 to 40, 0.4 of 0.3 to 1; a camera fault is of several things.
    [("rotate 20 deg", "rotate", [3]), ("blur 1.0", "blur", [2, 3]), ("noise 30", "noise", [2, 3]),
     ("brightness +60", "brightness", [3]), ("contrast x 0.4", "contrast", [0, 1]),
     ("camera fault", "camera fault", [0, 1, 2, 3])],
)  # fmt: skip
def test_each_shift_is_found_and_how_strong_it_is(
    kind: str, found: str, strengths: list[int]
) -> None:
    from cloud.training.augment import KINDS

    seen = like(shift(IMAGES[1_000:], kind))
    assert seen.ordinary < 0.2
    assert seen.odds.sum() == pytest.approx(1)
    assert seen.odds[KINDS.index(found)][strengths].sum() > 0.7


def test_clean_images_are_ordinary() -> None:
    seen = like(IMAGES[1_000:])
    assert seen.ordinary > 0.5
    assert seen.changed < 0.15


def test_less_is_imitated_where_the_shift_is_heavy_or_little_of_the_field_has_it() -> None:
    from cloud.training.recipes.finetune import imitated
    from cloud.training.recipes.likeness import Likeness

    odds = np.full((7, 4), 1 / 28, np.float32)
    assert imitated(0.2, Likeness(0.0, 0.0, odds)) == pytest.approx(0.2)
    assert imitated(0.2, Likeness(0.0, 1.0, odds)) == pytest.approx(0.1)
    assert imitated(0.2, Likeness(0.75, 0.0, odds)) == pytest.approx(0.05)


def test_a_heavy_shift_changes_more_answers_than_a_light_one() -> None:
    heavy, light = (
        like(shift(IMAGES[1_000:], kind)) for kind in ("camera fault", "contrast x 0.4")
    )
    assert heavy.changed > 0.6 > 0.3 > light.changed
