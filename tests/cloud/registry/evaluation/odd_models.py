"""Real ONNX graphs that misbehave, as bundles that are right in every other way."""

import hashlib
import io
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from shared.bundle.manifest import File, Manifest
from shared.bundle.reader import open_bundle
from tests.tiny_bundle import write_tiny_bundle

LABELS = 3


def write_odd(folder: Path, graph: bytes, *, version: str = "1.0.0", **update: object) -> Path:
    """A tiny bundle whose graph is this one; its golden outputs are the tiny model's own."""
    write_tiny_bundle(folder, version=version)
    manifest = open_bundle(folder).manifest
    file = _put(folder, "variants/model.onnx", graph)
    changed = manifest.model_dump(mode="json") | update
    for variant in changed["variants"]:
        variant["file"] = file.model_dump()
    _put(folder, "manifest.json", Manifest.model_validate(changed).model_dump_json().encode())
    return folder


def hanging() -> bytes:
    """Loops 2**62 times."""
    one = numpy_helper.from_array(np.float32(1), "one")
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go_on"], ["goes_on"]),
            helper.make_node("Mul", ["carried", "one"], ["carries"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("turn", TensorProto.INT64, []),
            helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("carried", TensorProto.FLOAT, ["n", LABELS]),
        ],
        [
            helper.make_tensor_value_info("goes_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("carries", TensorProto.FLOAT, ["n", LABELS]),
        ],
        [one],
    )
    return _tiny([
        helper.make_node("Loop", ["turns", "always", "scores"], ["logits"], body=body)
    ], turns=np.int64(2**62), always=np.bool_(True))  # fmt: skip


def starving() -> bytes:
    """Wants 16 GiB for every batch."""
    return _tiny([
        helper.make_node("ReduceMax", ["image_f"], ["top"], keepdims=0),
        helper.make_node("Expand", ["top", "huge"], ["much"]),
        helper.make_node("ReduceMax", ["much"], ["most"], keepdims=0),
        helper.make_node("Add", ["scores", "most"], ["logits"]),
    ], huge=np.array([2**32], np.int64))  # fmt: skip


def dividing() -> bytes:
    """NaN where an image is all black: 0 / 0."""
    return _tiny([
        helper.make_node("ReduceSum", ["image_f", "axes"], ["sum"], keepdims=0),
        helper.make_node("Reshape", ["sum", "column"], ["sums"]),
        helper.make_node("Div", ["sums", "sums"], ["ones"]),
        helper.make_node("Mul", ["scores", "ones"], ["logits"]),
    ], axes=np.array([1, 2], np.int64), column=np.array([-1, 1], np.int64))  # fmt: skip


def head_graph(features: int) -> bytes:
    """float32 [N, features] -> logits [N, 3]: label i is feature i."""
    weights = np.zeros((features, LABELS), np.float32)
    weights[:LABELS] = 8 * np.eye(LABELS)
    return _model(
        [helper.make_node("MatMul", ["features", "weights"], ["logits"])],
        helper.make_tensor_value_info("features", TensorProto.FLOAT, ["n", features]),
        {"weights": weights},
    )


def write_head(folder: Path, *, version: str = "1.0.0", features: int = 6) -> Path:
    """Takes features, no images."""
    graph = head_graph(features)
    inputs = np.random.default_rng(1).standard_normal((16, features)).astype(np.float32)
    golden = io.BytesIO()
    np.savez(golden, inputs=inputs, outputs=8 * inputs[:, :LABELS])
    write_tiny_bundle(folder, name="tiny-head", version=version)
    changed = open_bundle(folder).manifest.model_dump(mode="json")
    changed["inputs"] = [{"name": "features", "dtype": "float32", "shape": [features]}]
    for variant in changed["variants"]:
        variant["file"] = _put(folder, "variants/model.onnx", graph).model_dump()
    path = changed["golden"]["file"]["path"]
    changed["golden"]["file"] = _put(folder, path, golden.getvalue()).model_dump()
    changed["backbone"] = {"name": "some-backbone", "version": "1.0.0"}
    _put(folder, "manifest.json", Manifest.model_validate(changed).model_dump_json().encode())
    return folder


def _tiny(nodes: list[onnx.NodeProto], **constants: np.generic | np.ndarray) -> bytes:
    """`image_f` float32 [N, 4, 4] and `scores`, the tiny model's own logits, are there to use."""
    weights = np.zeros((16, LABELS), np.float32)
    for pixel in range(16):
        weights[pixel, pixel % LABELS] = 12.0 / len(range(pixel % LABELS, 16, LABELS)) / 255
    before = [
        helper.make_node("Cast", ["image"], ["image_f"], to=TensorProto.FLOAT),
        helper.make_node("Reshape", ["image_f", "flat"], ["pixels"]),
        helper.make_node("MatMul", ["pixels", "weights"], ["scores"]),
    ]
    return _model(
        [*before, *nodes],
        helper.make_tensor_value_info("image", TensorProto.UINT8, ["n", 4, 4]),
        {"flat": np.array([-1, 16], np.int64), "weights": weights, **constants},
    )


def _model(
    nodes: list[onnx.NodeProto],
    given: onnx.ValueInfoProto,
    constants: dict[str, np.generic | np.ndarray],
) -> bytes:
    graph = helper.make_graph(
        nodes,
        "odd",
        [given],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", LABELS])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def _put(folder: Path, path: str, content: bytes) -> File:
    (folder / path).write_bytes(content)
    return File(path=path, sha256=hashlib.sha256(content).hexdigest(), bytes=len(content))
