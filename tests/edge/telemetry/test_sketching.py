"""Counts in the reference's bins; what is not in the reference is not looked at."""

import math

import numpy as np
import pytest

from edge.telemetry.sketching import Sketching, usable
from shared.bundle.manifest import Sketch
from shared.fleet.telemetry import BINS_MAX
from shared.sketches import bin_of, reference_hash
from tests.edge.routing.references import images, made

REFERENCE = made(1_000)
BY_NAME = {sketch.feature: sketch for sketch in REFERENCE}


def test_each_sample_is_in_one_bin_of_each_feature() -> None:
    sketching = Sketching(REFERENCE)
    for n, image in enumerate(images(50, seed=3)):
        sketching.said(n % 4, n / 50)
        if n % 2:
            sketching.look(image)
    said = sketching.document()
    assert said.reference == reference_hash(REFERENCE)
    assert (said.looked, said.missing) == (25, 0)
    assert said.counts.keys() == BY_NAME.keys()
    for name, counts in said.counts.items():
        assert len(counts) == len(BY_NAME[name].counts)
        assert sum(counts) == (25 if name.startswith("input") else 50)


def test_its_bins_are_those_of_the_reference() -> None:
    sketching = Sketching(REFERENCE)
    sketching.said(2, 0.5)
    counts = sketching.document().counts
    assert counts["confidence"].index(1) == bin_of(BY_NAME["confidence"].edges, 0.5)
    assert counts["predicted_class"].index(1) == 3  # one bin a class, and one below the first


def test_counting_the_calibration_inputs_gives_the_reference() -> None:
    sketching = Sketching(REFERENCE)
    for image in images(1_000):
        sketching.look(image)
    for name, sketch in BY_NAME.items():
        if name.startswith("input"):
            assert sketching.document().counts[name] == sketch.counts


@pytest.mark.parametrize(
    "image",
    [np.zeros((0, 8), np.uint8), np.zeros((8, 8), np.uint8), np.full((8, 8), 255, np.uint8)],
)
def test_an_input_with_nothing_in_it_is_missing_and_in_no_bin(
    image: "np.typing.NDArray[np.uint8]",
) -> None:
    sketching = Sketching(REFERENCE)
    assert sketching.look(image) == []
    said = sketching.document()
    assert (said.looked, said.missing) == (1, 1)
    assert not any(sum(counts) for counts in said.counts.values())


def test_what_is_no_number_lies_beyond_the_last_edge() -> None:
    sketching = Sketching(REFERENCE)
    sketching.look(np.full((8, 8), math.nan, np.float32))
    assert all(
        counts[-1] == 1 for name, counts in sketching.document().counts.items()
        if name.startswith("input")
    )  # fmt: skip


def test_an_older_bundles_reference_is_counted_as_far_as_it_goes() -> None:
    old = (BY_NAME["input_mean"], BY_NAME["predicted_class"])
    sketching = Sketching(old)
    sketching.said(1, 0.9)
    sketching.look(images(1)[0])
    assert sketching.document().counts.keys() == {"input_mean", "predicted_class"}
    assert sum(sketching.document().counts["predicted_class"]) == 1


def test_what_a_report_could_not_take_is_left_out() -> None:
    wide = Sketch(
        feature="input_mean", edges=tuple(map(float, range(BINS_MAX))), counts=(1,) * (BINS_MAX + 1)
    )
    one_bin = Sketch(feature="input_std", edges=(), counts=(9,))
    unknown = Sketch(feature="of a later agent", edges=(1.0,), counts=(4, 5))
    assert usable((wide, one_bin, unknown)) == {}
    first, second = BY_NAME["confidence"], Sketch(feature="confidence", edges=(0.5,), counts=(1, 2))
    assert usable((first, second)) == {"confidence": first}
    bare = Sketching((wide,))
    bare.said(3, 0.1)
    assert bare.look(images(1)[0]) == []
    assert bare.document().counts == {}
