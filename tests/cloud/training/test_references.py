"""The references of the committed bundles are what the tool makes of the calibration split."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from cloud.training import fashion_mnist
from cloud.training.references import reference, renew
from shared.errors import Unknown
from shared.features import ANSWER_FEATURES, INPUT_FEATURES
from tests.tiny_bundle import write_tiny_bundle

MODELS = Path(__file__).parents[3] / "models"


@pytest.mark.skipif(
    not fashion_mnist.FOLDER.exists(), reason="needs dataset-fashion-mnist: make dataset"
)
def test_renewing_a_committed_bundle_changes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "fashion-edge"
    shutil.copytree(MODELS / "fashion-edge", folder)
    path = folder / "manifest.json"
    committed = json.loads(path.read_text())
    path.write_text(json.dumps(committed | {"reference": []}, indent=1) + "\n")
    renew(folder, fashion_mnist.load().calibrate.images)
    renewed = json.loads(path.read_text())
    for before, after in zip(committed.pop("reference"), renewed.pop("reference"), strict=True):
        assert before["feature"] == after["feature"]
        # Int8 kernels round otherwise on other processors, so confidence differs a little.
        assert after["edges"] == pytest.approx(before["edges"], abs=0.02)
        assert after["counts"] == pytest.approx(before["counts"], abs=30)
    assert path.read_text().endswith("}\n")
    assert renewed == committed


def test_inputs_with_nothing_in_them_are_in_no_bin_of_the_inputs() -> None:
    rng = np.random.default_rng(1)
    images = rng.integers(0, 256, (50, 8, 8)).astype(np.uint8)
    images[:10] = 0
    says = rng.dirichlet([1, 1, 1], 50).astype(np.float32)
    counted = {sketch.feature: sum(sketch.counts) for sketch in reference(images, says)}
    assert counted == dict.fromkeys(INPUT_FEATURES, 40) | dict.fromkeys(ANSWER_FEATURES, 50)
    assert reference(images[:10], says[:10])[0].edges, "of nothing else there is still a reference"


def test_a_bundle_without_the_graph_that_devices_run_is_refused(tmp_path: Path) -> None:
    write_tiny_bundle(tmp_path / "tiny")
    with pytest.raises(Unknown, match="has no variant onnxruntime/int8"):
        renew(tmp_path / "tiny", np.zeros((1, 4, 4), np.uint8))
