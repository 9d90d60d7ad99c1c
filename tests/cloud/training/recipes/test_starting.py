"""From a graph back to a network; needs torch (`make test-train`)."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from shared.bundle.reader import open_bundle
from shared.errors import HybridgeError
from tests.cloud.training.recipes.materials import pictures
from tests.tiny_bundle import tiny_onnx

if TYPE_CHECKING:
    from torch import nn

pytestmark = pytest.mark.train

MODELS = Path(__file__).parents[4] / "models"
IMAGES, _ = pictures(300, 9)


def network_of(name: str) -> "tuple[nn.Module, bytes]":
    from cloud.training.recipes import starting

    bundle = open_bundle(MODELS / name)
    graph = starting.fp32_graph(bundle)
    return starting.network_of(graph, IMAGES, bundle.where), graph


@pytest.mark.parametrize("name", ["fashion-edge", "fashion-cloud"])
def test_the_network_says_what_the_graph_says(name: str) -> None:
    from cloud.training.fit import logits_of
    from cloud.training.recipes.ground import opened

    network, graph = network_of(name)
    fresh, _ = pictures(64, 10)
    assert np.abs(logits_of(network, fresh) - opened(graph, name).run(fresh)).max() < 1e-4


@pytest.mark.parametrize("name", ["fashion-edge", "fashion-cloud"])
def test_normalizations_have_what_their_convolutions_give(name: str) -> None:
    import torch

    from cloud.training.recipes import starting

    network, _ = network_of(name)
    for _, _, norm in starting.normalized(network):
        norm.momentum = None  # then it keeps the plain mean over batches
        norm.num_batches_tracked.zero_()
    before = {k: v.clone() for k, v in network.state_dict().items() if "running_mean" in k}
    network.train()
    with torch.no_grad():
        network(torch.from_numpy(IMAGES.copy()))
    for key, mean in before.items():
        assert torch.allclose(network.state_dict()[key], mean, atol=1e-3), key


def test_a_graph_of_another_network_is_refused() -> None:
    from cloud.training.recipes import starting

    with pytest.raises(HybridgeError, match="are not those of edge-net or cloud-net"):
        starting.network_of(tiny_onnx(), IMAGES, "tiny")


def test_bytes_that_are_no_graph_are_refused() -> None:
    from cloud.training.recipes import starting

    with pytest.raises(HybridgeError, match="is no ONNX graph"):
        starting.network_of(b"\xff" * 40, IMAGES, "tiny")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("block2.0.weight", np.zeros((48, 23, 3, 3), np.float32), r"has float32\[48, 24, 3, 3\]"),
        ("block2.0.weight_bias", None, "block2.0.weight_bias is nothing"),
        ("head.bias", np.full(10, np.nan, np.float32), "values that are no numbers"),
    ],
)
def test_weights_that_do_not_fit_are_refused(
    name: str, value: np.ndarray | None, words: str
) -> None:
    from cloud.training.recipes import starting

    bundle = open_bundle(MODELS / "fashion-edge")
    weights = starting.weights_of(starting.fp32_graph(bundle), "edge")
    if value is None:
        del weights[name]
    else:
        weights[name] = value
    with pytest.raises(HybridgeError, match=words):
        starting.network_from(weights, IMAGES, "edge")
