"""What the field looks like is found from the field; needs torch (`make test-train`)."""

from pathlib import Path

import numpy as np
import pytest

from cloud.training.recipes.field import Field
from cloud.training.shifts import shift
from shared.bundle.reader import open_bundle

pytestmark = pytest.mark.train

MODELS = Path(__file__).parents[4] / "models"
IMAGES = np.load(MODELS / "fashion-mnist-test-2000.npz")["images"]


def like(images: np.ndarray) -> "tuple[float, dict[str, float]]":
    from cloud.training import augment
    from cloud.training.recipes import starting
    from cloud.training.recipes.likeness import likeness

    bundle = open_bundle(MODELS / "fashion-edge")
    network = starting.network_of(starting.fp32_graph(bundle), IMAGES[:500], bundle.where)
    count = len(images)
    field = Field(
        images, np.zeros(count, np.int64), np.full((count, 10), 0.1, np.float32),
        np.ones(count, np.uint8), np.ones(count),
    )  # fmt: skip
    found = likeness(network, IMAGES[:1_000], field, 0)
    return found.ordinary, dict(zip(augment.KINDS, found.odds, strict=True))


@pytest.mark.parametrize(
    ("kind", "found"),
    [("rotate 20 deg", "rotate"), ("blur 1.0", "blur"), ("noise 30", "noise"),
     ("brightness +60", "brightness"), ("contrast x 0.4", "contrast"),
     ("camera fault", "camera fault")],
)  # fmt: skip
def test_each_shift_is_found(kind: str, found: str) -> None:
    ordinary, odds = like(shift(IMAGES[1_000:], kind))
    assert ordinary < 0.2
    assert odds[found] > 0.7
    assert sum(odds.values()) == pytest.approx(1)


def test_clean_images_are_ordinary() -> None:
    ordinary, _ = like(IMAGES[1_000:])
    assert ordinary > 0.5
