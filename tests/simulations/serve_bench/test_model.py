from pathlib import Path

import numpy as np

from shared.bundle.reader import open_bundle
from simulations.serve_bench.model import CLASSES, SHAPE, cnn, make


def test_the_model_is_the_same_bytes_every_time() -> None:
    assert cnn() == cnn()


def test_the_bundle_is_whole_and_holds_the_graph_that_the_peers_get(tmp_path: Path) -> None:
    material = make(tmp_path)
    bundle = open_bundle(material.bundle)
    (variant,) = bundle.manifest.variants
    assert bundle.read(variant.file) == material.onnx.read_bytes()
    assert bundle.manifest.inputs[0].shape == SHAPE
    assert material.sample.shape == (1, *SHAPE)
    assert material.answer.shape == (CLASSES,)
    assert np.ptp(material.answer) > 1  # weights that say nothing would hide a wrong answer
