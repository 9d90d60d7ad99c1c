"""What cameras see: real images, clean, in other light and under the six shifts, and what the edge says.

From Fashion-MNIST's test split and the edge model as it is shipped. Images come by often, so the cells
that each one is counted in are computed once, by the sketching that devices run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloud.training.fashion_mnist import LABELS, load
from cloud.training.shifts import SHIFTS, shift
from edge.telemetry.sketching import Sketching
from shared.bundle.manifest import Manifest, Sketch
from shared.bundle.reader import open_bundle
from shared.confidence import softmax
from shared.engines.engine import OpenOptions
from shared.engines.onnxruntime_engine import OnnxRuntimeEngine

Images = NDArray[np.uint8]
LIGHT: Final = (0.95, 0.975, 1.0, 1.025, 1.05)
"""Gains between night and day, of a camera whose exposure follows the light."""
_IMAGES: Final = 5_000
_BATCH: Final = 250


@dataclass(frozen=True, slots=True)
class Scene:
    """The images under one condition."""

    labels: Sequence[int]
    """The edge's winners."""
    confidences: Sequence[float]
    cells: Sequence[list[int]]
    """In which a look counts it; none where there is nothing to see."""


@dataclass(frozen=True, slots=True)
class Material:
    manifest: Manifest
    scenes: Mapping[str, Scene]
    by_class: tuple[NDArray[np.intp], ...]
    """Indices of the images of each class."""


class Seen(Sketching):
    """Looks at an image whose cells are known."""

    __slots__ = ("known",)

    def __init__(self, reference: Sequence[Sketch]) -> None:
        super().__init__(reference)
        self.known: list[int] = []
        """Of the image that is looked at next."""

    def look(self, tensor: NDArray[np.uint8]) -> list[int]:  # noqa: ARG002  it is known
        self.looked += 1
        self.missing += not self.known
        for cell in self.known:
            self.cells[cell] += 1
        return self.known


def light(gain: float) -> str:
    """Name of the condition."""
    return f"light {gain:g}"


def make(models: Path, images: int = _IMAGES) -> Material:
    """About 20 s with all of them. Raises `Unknown` where the data set is not installed."""
    test = load().test
    return of_images(models, test.images[:images], test.labels[:images])


def of_images(models: Path, test: Images, labels: NDArray[np.integer]) -> Material:
    """Of uint8 images [N, 28, 28] and their labels [N]."""
    bundle = open_bundle(models / "fashion-edge")
    (variant,) = (one for one in bundle.manifest.variants if one.key == "onnxruntime/int8")
    session = OnnxRuntimeEngine().open(bundle.read(variant.file), OpenOptions())
    conditions = {kind: shift(test, kind) for kind in SHIFTS}
    for gain in LIGHT:
        conditions[light(gain)] = np.clip(np.round(test * gain), 0, 255).astype(np.uint8)
    scenes = dict[str, Scene]()
    for name, them in conditions.items():
        logits = np.concatenate([
            session.run(them[at : at + _BATCH]) for at in range(0, len(them), _BATCH)
        ])  # fmt: skip
        says = softmax(logits, bundle.manifest.calibration.temperature)
        sketching = Sketching(bundle.manifest.reference)
        scenes[name] = Scene(
            says.argmax(1).tolist(), says.max(1).tolist(), [sketching.look(one) for one in them]
        )
    session.close()
    return Material(
        bundle.manifest, scenes,
        tuple(np.flatnonzero(labels == label) for label in range(len(LABELS))),
    )  # fmt: skip
