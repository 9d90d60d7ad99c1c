"""From a bundle's fp32 graph back to the network that it was exported from, able to learn again.

The exporter folds each batch normalization into the convolution before it (Jacob et al. 2018,
arXiv:1712.05877, 3.2), so a graph has kernels and biases only. Here they are loaded as they are, and
each normalization is put back with the mean and variance that its convolution has on given images:
in evaluation mode nothing changes, in training mode batches are normalized again.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
import onnx
import torch
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # ships no types
from numpy.typing import NDArray
from onnx import numpy_helper
from torch import Tensor, nn

from cloud.training.documents import NetworkName
from cloud.training.networks import CloudNet, EdgeNet
from shared.bundle.reader import Bundle
from shared.errors import Malformed, Unknown

Weights = dict[str, NDArray[np.float32]]
NETWORKS: Final[dict[NetworkName, Callable[..., EdgeNet | CloudNet]]] = {
    "edge-net": EdgeNet,
    "cloud-net": CloudNet,
}
_WIDTHS: Final[dict[NetworkName, tuple[str, str, str]]] = {
    "edge-net": ("block1.0", "block2.0", "block3.0"),
    "cloud-net": ("stem.0", "stage1.0.conv1", "stage2.0.conv1"),
}
"""The convolutions whose output channels are the network's `widths`."""
_BIAS = "weight_bias"  # what the exporter calls a bias that came from a normalization
_MEASURED_BATCH = 250


def fp32_graph(bundle: Bundle) -> bytes:
    """Raises `Unknown` when the bundle has no ONNX graph in fp32, which alone can be trained on."""
    for variant in bundle.manifest.variants:
        if variant.key == "onnxruntime/fp32":
            return bundle.read(variant.file)
    keys = ", ".join(variant.key for variant in bundle.manifest.variants)
    raise Unknown(
        f"{bundle.where}: has {keys}, and no onnxruntime/fp32; training starts from fp32 weights, so "
        "name a version that has them"
    )


def network_of(graph: bytes, images: NDArray[np.uint8], where: str) -> nn.Module:
    """The network in evaluation mode, its normalizations measured on `images` [N, H, W], N >= 2.

    Raises `Malformed` when the graph is no export of a network that is known here.
    """
    return network_from(weights_of(graph, where), images, where)


def network_from(weights: Weights, images: NDArray[np.uint8], where: str) -> nn.Module:
    """The same, from the graph's constants."""
    kind, widths, classes = shape_of(weights, where)
    network = NETWORKS[kind](widths=widths, classes=classes).eval()
    _load(network, weights, where)
    _measure(network, images)
    return network


def weights_of(graph: bytes, where: str) -> Weights:
    """Every float32 constant of the graph by its name. Raises `Malformed` when it is no ONNX graph."""
    try:
        model = onnx.load_from_string(graph)
    except DecodeError as error:
        raise Malformed(f"{where}: is no ONNX graph: {error}") from error
    return {
        constant.name: np.array(numpy_helper.to_array(constant), np.float32)
        for constant in model.graph.initializer
        if constant.data_type == onnx.TensorProto.FLOAT
    }


def shape_of(weights: Weights, where: str) -> tuple[NetworkName, tuple[int, int, int], int]:
    """Which network these are the weights of, its widths and classes. Raises `Malformed`."""
    for kind, convolutions in _WIDTHS.items():
        kernels = [weights.get(f"{name}.weight") for name in convolutions]
        head = weights.get("head.weight")
        if head is None or head.ndim != 2:
            continue
        channels = [kernel.shape[0] for kernel in kernels if kernel is not None]
        if len(channels) == 3:
            first, second, third = channels
            return kind, (first, second, third), int(head.shape[0])
    held = ", ".join(sorted(weights)[:6])
    raise Malformed(
        f"{where}: its weights ({held}, ...) are not those of {' or '.join(NETWORKS)}; only graphs "
        "that were exported from these can be trained on, so name another bundle"
    )


def normalized(network: nn.Module) -> list[tuple[str, nn.Conv2d, nn.BatchNorm2d]]:
    """Each convolution with the normalization of its output, by the convolution's name."""
    modules = dict(network.named_modules())
    pairs = list[tuple[str, nn.Conv2d, nn.BatchNorm2d]]()
    for name, module in modules.items():
        if isinstance(module, nn.Conv2d):
            norm = modules[_norm_of(name)]
            assert isinstance(norm, nn.BatchNorm2d)
            pairs.append((name, module, norm))
    return pairs


def _norm_of(name: str) -> str:
    owner, _, last = name.rpartition(".")
    return f"{owner}.norm{last.removeprefix('conv')}" if last.startswith("conv") else f"{owner}.1"


@torch.no_grad()
def _load(network: nn.Module, weights: Weights, where: str) -> None:
    """Kernels and head as they are; every normalization adds the folded bias and nothing else."""
    head = network.get_submodule("head")
    assert isinstance(head, nn.Linear)
    wanted: list[tuple[str, Tensor]] = [("head.weight", head.weight), ("head.bias", head.bias)]
    for name, convolution, norm in normalized(network):
        norm.running_var.fill_(1 - norm.eps)  # type: ignore[union-attr]  # it tracks statistics
        wanted += [(f"{name}.weight", convolution.weight), (f"{name}.{_BIAS}", norm.bias)]
    for name, parameter in wanted:
        held = weights.get(name)
        if held is None or held.shape != tuple(parameter.shape):
            has = "nothing" if held is None else f"float32{list(held.shape)}"
            raise Malformed(
                f"{where}: {name} is {has}, the network has float32{list(parameter.shape)}; the "
                "graph was exported by another program, so name another bundle"
            )
        if not np.isfinite(held).all():
            raise Malformed(f"{where}: {name} has values that are no numbers; name another bundle")
        parameter.copy_(torch.from_numpy(held))


@torch.no_grad()
def _measure(network: nn.Module, images: NDArray[np.uint8]) -> None:
    """Give each normalization its convolution's statistics on `images`, and what undoes them."""
    pairs = normalized(network)
    sums = {name: torch.zeros(3, c.out_channels, dtype=torch.float64) for name, c, _ in pairs}

    def counting(name: str) -> Callable[[nn.Module, object, Tensor], None]:
        def count(_: nn.Module, __: object, output: Tensor) -> None:
            y = output.double()
            sums[name][0] += y.numel() / y.shape[1]
            sums[name][1] += y.sum((0, 2, 3))
            sums[name][2] += y.square().sum((0, 2, 3))

        return count

    hooks = [convolution.register_forward_hook(counting(name)) for name, convolution, _ in pairs]
    for at in range(0, len(images), _MEASURED_BATCH):
        network(torch.from_numpy(images[at : at + _MEASURED_BATCH].copy()))
    for hook in hooks:
        hook.remove()
    for name, _, norm in pairs:
        count, total, squares = sums[name]
        mean = total / count
        variance = (squares / count - mean.square()).clamp(min=0)
        bias = norm.bias.double()
        norm.running_mean.copy_(mean)  # type: ignore[union-attr]  # it tracks statistics
        norm.running_var.copy_(variance)  # type: ignore[union-attr]
        norm.weight.copy_((variance + norm.eps).sqrt())
        norm.bias.copy_(bias + mean)
