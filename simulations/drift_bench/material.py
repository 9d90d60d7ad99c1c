"""Feature values of real images, clean, in other light and under the six shifts, and the reference.

From Fashion-MNIST's test split and the edge model as it is shipped, through the very functions that
devices and training use.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloud.monitoring.drift.reference import Reference, of_manifest
from cloud.training.bundles import sketch
from cloud.training.fashion_mnist import LABELS, load
from cloud.training.shifts import SHIFTS, shift
from shared.bundle.manifest import Manifest, Sketch
from shared.confidence import softmax
from shared.engines.onnxruntime_engine import load_onnxruntime
from shared.features import ANSWER_FEATURES, INPUT_FEATURES, input_features

Images = NDArray[np.uint8]
LIGHT: Final = (0.95, 0.975, 1.0, 1.025, 1.05)
"""Gains between night and day, of a camera whose exposure follows the light."""
_IMAGES: Final = 5_000
_BATCH: Final = 32
_NAMES: Final = (*INPUT_FEATURES, *ANSWER_FEATURES)


@dataclass(frozen=True, slots=True)
class Material:
    reference: Reference
    places: Mapping[str, NDArray[np.intp]]
    """By condition: of each image the place of each feature's bin in a row [images, features]."""
    by_class: tuple[NDArray[np.intp], ...]
    """Indices of the images of each class."""


def light(gain: float) -> str:
    """Name of the condition."""
    return f"light {gain:g}"


def make(models: Path, images: int = _IMAGES) -> Material:
    """About 20 s with all of them. Raises `Unknown` where the data set is not installed."""
    folder = models / "fashion-edge"
    manifest = Manifest.model_validate_json(Path(folder, "manifest.json").read_text("utf-8"))
    values = _Values(folder, manifest)
    data = load()
    if {one.feature for one in manifest.reference} < set(_NAMES):
        manifest = manifest.model_copy(
            update={"reference": _reference(values.of(data.calibrate.images))}
        )
    test, labels = data.test.images[:images], data.test.labels[:images]
    conditions = {kind: shift(test, kind) for kind in SHIFTS}
    for gain in LIGHT:
        lit = np.clip(np.round(test * gain), 0, 255).astype(np.uint8)
        conditions[light(gain)] = lit
    by_name = {one.feature: one for one in manifest.reference}
    reference = of_manifest(manifest)
    return Material(
        reference,
        {
            name: _places(reference, by_name, values.of(them))
            for name, them in conditions.items()
        },
        tuple(np.flatnonzero(labels == label) for label in range(len(LABELS))),
    )  # fmt: skip


class _Values:
    """Of images, by the edge model's own graph."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        variant = next(one for one in manifest.variants if one.key == "onnxruntime/int8")
        runtime = load_onnxruntime()
        options = runtime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = runtime.InferenceSession(
            str(folder / variant.file.path), options, providers=["CPUExecutionProvider"]
        )
        self._temperature = manifest.calibration.temperature

    def of(self, images: Images) -> NDArray[np.float64]:
        """[images, features], in the order of `_NAMES`."""
        inputs = np.asarray([input_features(image) for image in images])
        name = self._session.get_inputs()[0].name
        logits = np.concatenate([
            self._session.run(None, {name: images[at : at + _BATCH]})[0]
            for at in range(0, len(images), _BATCH)
        ])  # fmt: skip
        says = softmax(logits, self._temperature)
        return np.column_stack([inputs, says.max(axis=1), says.argmax(axis=1)])


def _reference(values: NDArray[np.float64]) -> tuple[Sketch, ...]:
    return tuple(sketch(name, values[:, at]) for at, name in enumerate(_NAMES))


def _places(
    reference: Reference, sketches: Mapping[str, Sketch], values: NDArray[np.float64]
) -> NDArray[np.intp]:
    return np.column_stack([
        feature.begin
        + np.searchsorted(
            sketches[feature.name].edges, values[:, _NAMES.index(feature.name)], side="right"
        )
        for feature in reference.features
    ])  # fmt: skip
