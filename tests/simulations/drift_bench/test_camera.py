"""A camera of the bench is the agent's own watch: it looks as often as a device does."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from edge.routing.novelty import EVERY
from edge.telemetry.sketching import Sketching
from shared.bundle.reader import open_bundle
from simulations.drift_bench.camera import Camera
from simulations.drift_bench.material import Scene

Images = NDArray[np.uint8]
MANIFEST = open_bundle(Path(__file__).parents[3] / "models" / "fashion-edge").manifest
EVEN = np.full(10, 0.1)


@pytest.fixture(scope="module")
def samples() -> Images:
    with np.load(Path(__file__).parents[3] / "models" / "fashion-mnist-test-2000.npz") as found:
        images: Images = found["images"][:128]
        return images


def scene(images: Images) -> Scene:
    sketching = Sketching(MANIFEST.reference)
    count = len(images)
    return Scene(
        [n % 10 for n in range(count)], [0.95] * count, [sketching.look(one) for one in images]
    )


def looked(images: Images, counts: int) -> tuple[int, int]:
    camera = Camera("cam", "site", MANIFEST, EVEN, EVEN)
    camera.see(scene(images), [n % len(images) for n in range(counts)], 1.0)
    report = camera.report(2.0, 30.0)
    assert report.sketches is not None
    assert sum(report.sketches.counts["confidence"]) == report.tally.samples == counts
    assert sum(report.sketches.counts["input_mean"]) == report.sketches.looked
    return report.sketches.looked, counts


def test_while_all_is_calm_it_looks_at_one_in_four(samples: Images) -> None:
    looks, counts = looked(samples, 200)
    assert counts / EVERY <= looks < counts / 2


def test_of_inputs_that_nobody_has_seen_it_looks_at_each(samples: Images) -> None:
    strange = np.clip(samples.astype(int) + 120, 0, 255).astype(np.uint8)
    looks, counts = looked(strange, 200)
    assert looks > counts * 0.8


def test_what_shows_nothing_is_missing() -> None:
    camera = Camera("cam", "site", MANIFEST, EVEN, EVEN)
    camera.see(scene(np.zeros((4, 28, 28), np.uint8)), [0, 1, 2, 3] * 5, 1.0)
    found = camera.report(2.0, 30.0).sketches
    assert found is not None
    assert found.missing == found.looked > 0
