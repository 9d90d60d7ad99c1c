from pathlib import Path

import numpy as np
import pytest

from cloud.monitoring.input_range import InputRange
from shared.bundle.manifest import Manifest, Sketch
from shared.bundle.reader import open_bundle
from tests.tiny_bundle import write_tiny_bundle

DEMO = Path(__file__).parents[3] / "models"
MEAN = Sketch(feature="input_mean", edges=(100.0, 150.0, 200.0), counts=(1, 7, 7, 1))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    return open_bundle(write_tiny_bundle(tmp_path_factory.mktemp("models") / "tiny")).manifest


def in_range(tiny: Manifest, *sketches: Sketch, margin: float = 0.2) -> InputRange:
    return InputRange(tiny.model_copy(update={"reference": sketches}), margin)


def grey(*levels: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.stack([np.full((4, 4), level, np.uint8) for level in levels])


def test_a_margin_beyond_the_outermost_edges_is_still_in_range(tiny: Manifest) -> None:
    within = in_range(tiny, MEAN)
    for level, marked in ((79, True), (80, False), (150, False), (220, False), (221, True)):
        assert within.marks(grey(level)) == (("out_of_range:input_mean",) if marked else ())


def test_where_nothing_was_seen_beyond_an_edge_the_edge_is_the_end(tiny: Manifest) -> None:
    within = in_range(tiny, MEAN.model_copy(update={"counts": (0, 7, 7, 0)}))
    assert within.marks(grey(99)) == within.marks(grey(201)) == ("out_of_range:input_mean",)
    assert within.marks(grey(100, 200)) == ()


def test_one_row_of_many_is_enough_and_each_feature_is_named(tiny: Manifest) -> None:
    spread = Sketch(feature="input_std", edges=(20.0, 40.0), counts=(1, 1, 1))
    within = in_range(tiny, MEAN, spread)
    assert within.marks(grey(150, 10)) == ("out_of_range:input_mean", "out_of_range:input_std")


def test_sketches_of_answers_and_unknown_ones_say_nothing_about_an_input(tiny: Manifest) -> None:
    other = MEAN.model_copy(update={"feature": "confidence"})
    empty = Sketch(feature="input_mean", edges=(), counts=(5,))
    assert in_range(tiny, other, empty).marks(grey(255)) == ()


@pytest.mark.parametrize("shape", [(1, 1000, 1000), (1000, 1000), (300_000, 4), (1000, 1)])
def test_large_inputs_are_looked_at_in_part_and_judged_alike(
    tiny: Manifest, shape: tuple[int, ...]
) -> None:
    within = in_range(tiny, MEAN)
    assert within.marks(np.full(shape, 150, np.uint8)) == ()
    assert within.marks(np.full(shape, 10, np.uint8)) == ("out_of_range:input_mean",)


def test_the_demos_images_are_in_range_and_their_negatives_mostly_are_not() -> None:
    within = InputRange(open_bundle(DEMO / "fashion-cloud").manifest, margin=0.05)
    with np.load(DEMO / "fashion-mnist-test-2000.npz") as data:
        images = data["images"][:500]
    marked = [sum(bool(within.marks(one[None])) for one in kind) for kind in (images, 255 - images)]
    assert marked[0] <= 2
    assert marked[1] > 250
