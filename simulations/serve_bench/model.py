"""The benchmark's model, the same bytes every time: 28 x 28 float32 -> 10, 206,922 parameters."""

import hashlib
import json
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Final

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper

from shared.bundle.manifest import (
    Calibration,
    File,
    Golden,
    Lineage,
    Manifest,
    PayloadCodec,
    Tensor,
    Variant,
)
from shared.engines.onnxruntime_engine import load_onnxruntime

NAME: Final = "cnn"
SHAPE: Final = (1, 28, 28)
CLASSES: Final = 10
_GOLDEN_SAMPLES: Final = 16
_WEIGHTS: Final = {
    "c1w": (16, 1, 3, 3), "c1b": (16,), "c2w": (32, 16, 3, 3), "c2b": (32,),
    "f1w": (128, 1568), "f1b": (128,), "f2w": (CLASSES, 128), "f2b": (CLASSES,),
}  # fmt: skip

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Material:
    """What every server and every client of a run gets."""

    onnx: Path
    bundle: Path
    sample: Floats  # [1, 1, 28, 28]
    answer: Floats  # [10], of ONNX Runtime


def make(folder: Path) -> Material:
    """Write `cnn.onnx` and the bundle `cnn` into `folder`."""
    graph = cnn()
    path = folder / "cnn.onnx"
    path.write_bytes(graph)
    session = load_onnxruntime().InferenceSession(graph, providers=["CPUExecutionProvider"])
    inputs = np.random.default_rng(1).standard_normal((_GOLDEN_SAMPLES, *SHAPE), np.float32)
    outputs: Floats = session.run(None, {"x": inputs})[0]
    bundle = folder / NAME
    _write_bundle(bundle, graph, inputs, outputs)
    return Material(path, bundle, inputs[:1], outputs[0])


def cnn() -> bytes:
    """The graph: "x" float32 [N, 1, 28, 28] -> "y" float32 [N, 10], core operators only."""
    random = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(
            (random.standard_normal(shape) * (2 / np.prod(shape[1:] or (1,))) ** 0.5)
            .astype(np.float32), name,
        )
        for name, shape in _WEIGHTS.items()
    ]  # fmt: skip
    nodes = [
        *_convolution("x", "c1", "pooled"),
        *_convolution("pooled", "c2", "features"),
        helper.make_node("Flatten", ["features"], ["flat"]),
        helper.make_node("Gemm", ["flat", "f1w", "f1b"], ["dense"], transB=1),
        helper.make_node("Relu", ["dense"], ["hidden"]),
        helper.make_node("Gemm", ["hidden", "f2w", "f2b"], ["y"], transB=1),
    ]
    graph = helper.make_graph(
        nodes, NAME,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *SHAPE])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", CLASSES])],
        weights,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString(deterministic=True))


def _convolution(source: str, layer: str, result: str) -> list[NodeProto]:
    """3 x 3, rectified, halved."""
    return [
        helper.make_node(
            "Conv", [source, f"{layer}w", f"{layer}b"], [f"{layer}_sum"],
            kernel_shape=[3, 3], pads=[1] * 4,
        ),
        helper.make_node("Relu", [f"{layer}_sum"], [f"{layer}_cut"]),
        helper.make_node(
            "MaxPool", [f"{layer}_cut"], [result], kernel_shape=[2, 2], strides=[2, 2]
        ),
    ]  # fmt: skip


def _write_bundle(folder: Path, graph: bytes, inputs: Floats, outputs: Floats) -> None:
    folder.mkdir()
    golden = BytesIO()
    np.savez(golden, inputs=inputs, outputs=outputs)
    manifest = Manifest(
        format=1,
        name=NAME,
        version="1.0.0",
        task="classify",
        inputs=(Tensor(name="x", dtype="float32", shape=SHAPE),),
        outputs=(Tensor(name="y", dtype="float32", shape=(CLASSES,)),),
        labels=tuple(f"class-{number}" for number in range(CLASSES)),
        variants=(
            Variant(engine="onnxruntime", precision="fp32", file=_put(folder, "cnn.onnx", graph)),
        ),
        calibration=Calibration(temperature=1.0, score="max_softmax"),
        golden=Golden(
            file=_put(folder, "golden.npz", golden.getvalue()),
            tolerance={"fp32": 1e-3},
            agreement_min={"fp32": 1.0},
        ),
        payload=PayloadCodec(codec="raw"),
        reference=(),
        lineage=Lineage(
            data_set="none", data_sha256="0" * 64, code_version="serve_bench",
            hyperparameters={}, metrics={},
        ),
        card=_put(folder, "card.md", b"# cnn\nRandom weights: a load for benchmarks.\n"),
    )  # fmt: skip
    text = json.dumps(manifest.model_dump(mode="json"), indent=1)
    (folder / "manifest.json").write_text(text + "\n")


def _put(folder: Path, path: str, content: bytes) -> File:
    (folder / path).write_bytes(content)
    return File(path=path, sha256=hashlib.sha256(content).hexdigest(), bytes=len(content))
