"""The way from a fitted network to int8; needs torch (`make test-train`)."""

from typing import TYPE_CHECKING

import numpy as np
import pytest

from cloud.training import evaluate
from shared.engines.engine import OpenOptions
from shared.engines.onnxruntime_engine import OnnxRuntimeEngine
from shared.errors import Malformed

if TYPE_CHECKING:
    from onnx import ModelProto
    from torch import nn

pytestmark = pytest.mark.train

NOISE = np.random.default_rng(3).integers(0, 256, (256, 28, 28), np.uint8)


@pytest.fixture(scope="module")
def network() -> "nn.Module":
    import torch

    from cloud.training.networks import EdgeNet

    torch.manual_seed(1)
    return EdgeNet(widths=(8, 8, 8)).eval()


@pytest.fixture(scope="module")
def fp32(network: "nn.Module") -> "ModelProto":
    from cloud.training import export

    return export.to_onnx(network, NOISE[:2])


@pytest.fixture(scope="module")
def int8(fp32: "ModelProto") -> "ModelProto":
    from cloud.training import export

    return export.to_int8(fp32, NOISE[:64])


def run(graph: "ModelProto", images: np.ndarray) -> np.ndarray:
    return evaluate.logits(
        OnnxRuntimeEngine().open(graph.SerializeToString(), OpenOptions()), images
    )


def test_the_graph_says_what_the_network_says_at_any_batch(
    network: "nn.Module", fp32: "ModelProto"
) -> None:
    from cloud.training.fit import logits_of

    expected = logits_of(network, NOISE)
    session = OnnxRuntimeEngine().open(fp32.SerializeToString(), OpenOptions())
    for batch in (1, 3, 256):
        assert np.allclose(evaluate.logits(session, NOISE, batch), expected, atol=1e-4)


def test_int8_takes_the_pixels_as_they_are(int8: "ModelProto") -> None:
    nodes = int8.graph.node
    assert "Cast" not in {node.op_type for node in nodes}
    (first,) = (node for node in nodes if "image" in node.input)
    (second,) = (node for node in nodes if first.output[0] in node.input)
    assert [first.op_type, second.op_type] == ["Unsqueeze", "DequantizeLinear"]
    assert int8.graph.input[0].type.tensor_type.elem_type == 2  # uint8


def test_int8_keeps_its_head_in_fp32(int8: "ModelProto") -> None:
    (head,) = (node for node in int8.graph.node if node.op_type == "Gemm")
    constants = {i.name: i.data_type for i in int8.graph.initializer}
    assert [constants[name] for name in head.input[1:]] == [1, 1]  # float


def test_int8_answers_noise_as_fp32_does(fp32: "ModelProto", int8: "ModelProto") -> None:
    exact, rounded = run(fp32, NOISE), run(int8, NOISE)
    spread = (exact - exact.mean(0)).std()
    assert np.abs(rounded - exact).mean() < 0.25 * spread
    assert not np.array_equal(rounded, exact)


def test_int8_is_smaller(fp32: "ModelProto", int8: "ModelProto") -> None:
    kernels = [
        sum(len(i.raw_data) for i in graph.graph.initializer if len(i.dims) == 4)
        for graph in (fp32, int8)
    ]
    assert kernels[1] == kernels[0] / 4


def test_nothing_of_this_machine_stays_in_a_graph(fp32: "ModelProto", int8: "ModelProto") -> None:
    for graph in (fp32, int8):
        assert b"networks.py" not in graph.SerializeToString()
        assert not graph.graph.value_info


def test_samples_without_a_white_pixel_are_refused(fp32: "ModelProto") -> None:
    from cloud.training import export

    with pytest.raises(Malformed, match="calibrate with a white pixel"):
        export.to_int8(fp32, NOISE[:64] // 2)


def test_a_graph_that_begins_otherwise_is_refused(int8: "ModelProto") -> None:
    from cloud.training import export

    with pytest.raises(Malformed, match=r"the graph begins with .*'Unsqueeze', 'DequantizeLinear'"):
        export._without_input_floats(int8)
