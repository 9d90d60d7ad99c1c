"""Graphs whose weights are files: of the machine that opens them, its keys for one."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from shared.engines.engine import Engine, OpenOptions
from shared.engines.external_data import refuse_external_data
from shared.engines.onnxruntime_engine import OnnxRuntimeEngine
from shared.engines.openvino_engine import OpenVinoEngine
from shared.errors import Malformed

FLOAT = TensorProto.FLOAT
X = helper.make_tensor_value_info("x", FLOAT, ["n", 4])
Y = helper.make_tensor_value_info("y", FLOAT, ["n", 4])
INSIDE = numpy_helper.from_array(np.ones(4, np.float32), "w")


def _outside(name: str = "w", location: str = "secret.pem") -> TensorProto:
    tensor = TensorProto(
        name=name, data_type=FLOAT, dims=[4], data_location=TensorProto.EXTERNAL
    )  # fmt: skip
    for key, value in (("location", location), ("offset", "0"), ("length", "16")):
        tensor.external_data.add(key=key, value=value)
    return tensor


def _model(weight: TensorProto, name: str = "add") -> ModelProto:
    node = helper.make_node("Add", ["x", "w"], ["y"], name=name)
    graph = helper.make_graph([node], "g", [X], [Y], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _in_an_attribute() -> ModelProto:
    model = _model(INSIDE)
    model.graph.node.append(helper.make_node("Constant", [], ["c"], value=_outside()))
    return model


def _in_a_branch() -> ModelProto:
    """A graph within a node of a graph."""
    model = _model(INSIDE)
    branch = _model(_outside()).graph
    model.graph.node.append(
        helper.make_node("If", ["x"], ["z"], then_branch=branch, else_branch=branch)
    )
    return model


def _in_a_function() -> ModelProto:
    model = _model(INSIDE)
    constant = helper.make_node("Constant", [], ["c"], value=_outside())
    model.functions.append(
        helper.make_function("own", "f", [], ["c"], [constant], [helper.make_opsetid("", 17)])
    )
    return model


def _sparse() -> ModelProto:
    model = _model(INSIDE)
    model.graph.sparse_initializer.add(values=_outside())
    return model


def _not_said_to_be() -> ModelProto:
    """It names a file, and does not say that its data is there."""
    tensor = _outside()
    tensor.ClearField("data_location")
    return _model(tensor)


@pytest.mark.parametrize("engine", [OnnxRuntimeEngine(), OpenVinoEngine()], ids=lambda e: e.name)
def test_no_engine_takes_a_file_beside_it_for_weights(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.pem").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    with pytest.raises(Malformed, match="m: keeps weights in files"):
        engine.open(_model(_outside()).SerializeToString(), OpenOptions(where="m"))


@pytest.mark.parametrize(
    "make", [_in_an_attribute, _in_a_branch, _in_a_function, _sparse, _not_said_to_be]
)
def test_wherever_a_tensor_can_be(make: Callable[[], ModelProto]) -> None:
    with pytest.raises(Malformed, match="keeps weights in files"):
        refuse_external_data(make().SerializeToString(), "m")


def test_a_name_is_no_file() -> None:
    content = _model(INSIDE, name="location").SerializeToString()
    refuse_external_data(content, "m")
    assert OnnxRuntimeEngine().open(content, OpenOptions()).inputs[0].name == "x"


@pytest.mark.parametrize("rest", [b"\x0b", b"\x3a\xff\x01", b"\x80" * 11, b"\x09\x00", b"\xff"])
def test_what_cannot_be_walked_is_refused(rest: bytes) -> None:
    content = _model(INSIDE, name="location").SerializeToString()
    with pytest.raises(Malformed, match="no ONNX graph"):
        refuse_external_data(content + rest, "m")


def test_a_graph_without_end_is_refused() -> None:
    with pytest.raises(Malformed, match="no ONNX graph"):
        refuse_external_data(b"\x08\x01" * 1_000_001 + b"\x0a\x08location", "m")
