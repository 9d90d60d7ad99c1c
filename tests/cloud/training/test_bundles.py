import hashlib
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cloud.training import bundles
from cloud.training.bundles import Graph
from shared.bundle.manifest import Calibration, Lineage, Manifest
from shared.bundle.reader import open_bundle
from shared.engines.engine import OpenOptions
from shared.engines.onnxruntime_engine import OnnxRuntimeEngine
from shared.wire.pixels import Decoder, Encoder
from tests.cloud.training.soft_images import soft_images
from tests.tiny_bundle import SIDE, sure_image, tiny_logits, tiny_onnx

IMAGES = np.stack([sure_image(n % 3) for n in range(12)])


@pytest.fixture(scope="module")
def dictionary() -> bytes:
    return bundles.grey4_dictionary(soft_images(1_000))


def write(folder: Path, dictionary: bytes) -> Manifest:
    runtime = {"onnxruntime": ">=1.20", "openvino": ">=2025.0"}
    engines = (("onnxruntime", "int8"), ("openvino", "int8"))
    return bundles.write(
        folder, name="tiny", version="1.2.3", answers_for=(), labels=("a", "b", "c"),
        graphs=(
            Graph("tiny.int8", tiny_onnx(), engines, runtime),
            Graph("tiny.fp32", tiny_onnx(scale=11.0), (("onnxruntime", "fp32"),), runtime),
        ),
        golden=bundles.golden_file(IMAGES, tiny_logits(IMAGES)), dictionary=dictionary,
        calibration=Calibration(temperature=1.5, score="max_softmax"),
        reference=(bundles.sketch("input_mean", IMAGES.mean((1, 2))),),
        lineage=Lineage(
            data_set="made up", data_sha256="0" * 64, code_version="1", hyperparameters={},
            metrics={"accuracy": 1.0},
        ),
        card="# Tiny\n", image_shape=(SIDE, SIDE),
    )  # fmt: skip


def test_what_is_written_is_a_bundle(tmp_path: Path, dictionary: bytes) -> None:
    written = write(tmp_path / "new" / "tiny", dictionary)
    bundle = open_bundle(tmp_path / "new" / "tiny")
    assert bundle.manifest == written
    assert bundle.dictionary == dictionary
    assert np.array_equal(bundle.golden.inputs, IMAGES)
    variants = {variant.key: variant for variant in written.variants}
    assert set(variants) == {"onnxruntime/int8", "openvino/int8", "onnxruntime/fp32"}
    assert variants["onnxruntime/int8"].file == variants["openvino/int8"].file
    assert variants["openvino/int8"].runtime == {"openvino": ">=2025.0"}  # its own alone
    assert set(written.golden.tolerance) == {"int8", "fp32"}
    session = OnnxRuntimeEngine().open(
        bundle.read(variants["onnxruntime/int8"].file), OpenOptions()
    )
    assert np.allclose(session.run(IMAGES), bundle.golden.outputs, atol=1e-4)


def test_a_bundle_written_anew_holds_nothing_of_the_old(tmp_path: Path, dictionary: bytes) -> None:
    (tmp_path / "old.onnx").write_bytes(b"old")
    write(tmp_path, dictionary)
    first = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in tmp_path.iterdir()}
    assert "old.onnx" not in first
    write(tmp_path, dictionary)
    again = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in tmp_path.iterdir()}
    assert again == first


def test_the_dictionary_is_worth_its_bytes(dictionary: bytes) -> None:
    fresh = soft_images(1_100)[1_000:]
    plain, helped = Encoder("grey4"), Encoder("grey4", dictionary)
    sizes = [sum(len(encoder.encode(image).data) for image in fresh) for encoder in (plain, helped)]
    assert sizes[1] < 0.9 * sizes[0]
    arrived = Decoder((dictionary,)).decode(helped.encode(fresh[0]))
    assert abs(arrived.astype(int) - fresh[0]).max() <= 8  # half of a sixteenth


@pytest.mark.parametrize(
    "values",
    [np.arange(1_000.0), np.zeros(50), np.array([1.0, 2.0]), np.repeat([0.0, 9.0], [900, 100])],
)
def test_a_sketch_counts_every_value_once(values: NDArray[np.float64]) -> None:
    made = bundles.sketch("x", values)
    assert sum(made.counts) == len(values)
    assert list(made.edges) == sorted(set(made.edges))
    for edge, below in zip(made.edges, np.cumsum(made.counts), strict=False):
        assert (values < edge).sum() == below


def test_a_sketch_of_even_values_has_even_bins_and_rare_tails() -> None:
    counts = bundles.sketch("x", np.arange(16_000.0)).counts
    assert counts[0] == counts[-1] == 8  # 1 in 2,000
    assert counts[1] == counts[-2] == 72
    assert all(abs(count - 1_000) <= 1 for count in counts[3:-3])


@pytest.mark.parametrize(
    ("values", "edges"),
    [
        (np.zeros(5_000), (0.0, 0.001)),  # all alike
        (np.repeat([0.0, 4.0], [4_998, 2]), (0.0, 2.0)),  # nearly
        (np.full(100, 200.0), (200.0, 200.2)),
    ],
)
def test_a_value_that_many_have_does_not_fill_an_outermost_bin(
    values: NDArray[np.float64], edges: tuple[float, ...]
) -> None:
    made = bundles.sketch("input_low", values)
    assert made.edges == edges
    assert made.counts[0] == 0
    assert made.counts[-1] <= 2


def test_each_predicted_class_has_a_bin_however_rare() -> None:
    made = bundles.sketch("predicted_class", np.repeat([0.0, 1.0, 3.0], [9_990, 1, 9]))
    assert made.edges == (0.0, 1.0, 2.0, 3.0)
    assert made.counts == (0, 9_990, 1, 0, 9)
    assert len(bundles.sketch("predicted_class", np.arange(1_000.0)).edges) == bundles.EDGES_MAX
