"""How every fitted network ends: exported, quantized, ready to be measured."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, numpy_helper
from pydantic import JsonValue
from torch import nn

from cloud.training import export
from cloud.training.networks import EdgeNet
from cloud.training.recipes.ground import Answering
from cloud.training.recipes.make_bundle import Candidate, Role, graphs_of


def as_candidate(
    network: nn.Module, *, name: str, version: str, answers_for: tuple[str, ...],
    hyperparameters: Mapping[str, JsonValue], base_rows: int, ranges: NDArray[np.uint8],
    soft_by: Answering | None = None,
) -> Candidate:  # fmt: skip
    """`ranges` [N, H, W] are what int8 ranges are measured on; one of them needs a white pixel."""
    role = role_of(network)
    fp32 = export.to_onnx(network, ranges[:2])
    int8 = export.to_int8(fp32, ranges).SerializeToString()
    whole = fp32.SerializeToString()
    parameters = parameters_of(fp32)
    return Candidate(
        name=name, version=version, role=role, answers_for=answers_for,
        graphs=graphs_of(role, int8, whole), served=int8, fp32=whole, parameters=parameters,
        network=f"{type(network).__name__}, {parameters:,} parameters", base_rows=base_rows,
        soft_by=soft_by, hyperparameters=hyperparameters,
    )  # fmt: skip


def role_of(network: nn.Module) -> Role:
    """A small network escalates, a big one is escalated to."""
    return "edge" if isinstance(network, EdgeNet) else "cloud"


def parameters_of(model: ModelProto) -> int:
    """Of a graph: what was folded into a convolution counts once."""
    return sum(
        int(numpy_helper.to_array(constant).size)
        for constant in model.graph.initializer
        if constant.data_type == TensorProto.FLOAT and constant.dims
    )
