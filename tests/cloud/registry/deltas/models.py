"""Small ONNX files, made with the onnx package."""

from collections.abc import Mapping

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper


def model(
    initializers: Mapping[str, NDArray[np.generic]],
    constants: Mapping[str, NDArray[np.generic]] | None = None,
    depth: int = 0,
    doc: str = "",
) -> bytes:
    """`constants` are Constant nodes, inside so many nested `If`s."""
    nodes = [
        helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value))
        for name, value in (constants or {}).items()
    ]
    for level in range(depth):
        inner = helper.make_graph(nodes, f"g{level}", [], [])
        nodes = [
            helper.make_node("If", ["c"], [f"if{level}"], then_branch=inner, else_branch=inner)
        ]
    graph = helper.make_graph(
        nodes, "g", [], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
        initializer=[numpy_helper.from_array(value, name) for name, value in initializers.items()],
        doc_string=doc,
    )  # fmt: skip
    made: onnx.ModelProto = helper.make_model(graph)
    return bytes(made.SerializeToString())


def int8(seed: int, *shape: int) -> NDArray[np.int8]:
    return np.random.default_rng(seed).integers(-127, 128, shape).astype(np.int8)
