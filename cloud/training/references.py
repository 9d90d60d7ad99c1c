"""The reference of a bundle: how inputs and answers are spread over the calibration split.

    python -m cloud.training.references models/fashion-edge

writes it into a bundle's manifest anew, from its own int8 graph, and leaves the rest as it is.
"""

import json
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cloud.training import bundles, evaluate, fashion_mnist
from shared.bundle.manifest import Sketch
from shared.bundle.reader import open_bundle
from shared.confidence import softmax
from shared.engines.engine import OpenOptions
from shared.engines.onnxruntime_engine import OnnxRuntimeEngine
from shared.errors import HybridgeError, Unknown
from shared.features import INPUT_FEATURES, input_features, nothing_to_see

_VARIANT = "onnxruntime/int8"


def reference(images: NDArray[np.uint8], probabilities: NDArray[np.float32]) -> tuple[Sketch, ...]:
    """Of inputs [N, ...] and the model's calibrated probabilities [N, classes] of them.

    Inputs with nothing in them are left out of the input's features, as on devices.
    """
    looks = [input_features(image) for image in images]
    seen = np.array([look for look in looks if not nothing_to_see(look)] or looks)
    return (
        *(bundles.sketch(name, seen[:, at]) for at, name in enumerate(INPUT_FEATURES)),
        bundles.sketch("confidence", probabilities.max(1)),
        bundles.sketch("predicted_class", probabilities.argmax(1).astype(np.float64)),
    )


def renew(folder: Path, images: NDArray[np.uint8]) -> None:
    """Raises `Unknown` for a bundle without an int8 graph for onnxruntime, and what reading does."""
    bundle = open_bundle(folder)
    variant = next((one for one in bundle.manifest.variants if one.key == _VARIANT), None)
    if variant is None:
        raise Unknown(f"{folder}: has no variant {_VARIANT}; a reference is of that one's answers")
    session = OnnxRuntimeEngine().open(bundle.read(variant.file), OpenOptions())
    logits = evaluate.logits(session, images)
    renewed = reference(images, softmax(logits, bundle.manifest.calibration.temperature))
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["reference"] = [sketch.model_dump(mode="json") for sketch in renewed]
    path.write_text(json.dumps(manifest, indent=1) + "\n")


if __name__ == "__main__":
    try:
        split = fashion_mnist.load().calibrate
        for name in sys.argv[1:]:
            renew(Path(name), split.images)
    except HybridgeError as error:
        sys.exit(str(error))
