"""Versions of a real model that are worse in a known way, to see who notices.

worse:  as many points less accurate as asked, with golden samples of its own: it passes every
        check that looks at the bundle alone
nan, load, slow: right under onnxruntime, where a registry measures it; under OpenVINO, where
        the devices run it, it gives NaN, does not load, or takes several times as long
"""

import hashlib
import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from cloud.training.bundles import golden_file

Kind = Literal["worse", "nan", "load", "slow"]
Images = NDArray[np.uint8]
_GRAPH = "edge.int8.onnx"
_OPENVINO = "edge.openvino.onnx"
_HEAD, _BIAS = "head.weight", "head.bias"
_STEPS = 24
_SLOW_WIDTH = 240_000
"""A hundred times as long on an idle core. Of twenty devices on two cores the active model, measured in
turn with it, takes five times as long as alone, and a smaller one passed for less than three times."""


def version_of(base: Path, folder: Path, version: str) -> Path:
    """The same model as another version, int8 only."""
    shutil.copytree(base, folder)
    _write(folder, version, openvino=None, golden=None, graph=None)
    return folder


def spoil(
    base: Path, folder: Path, version: str, kind: Kind, images: Images, labels: NDArray[np.uint8],
    points: float = 2.0,
) -> Path:  # fmt: skip
    """A version of the bundle `base` in `folder`, which is made. `images` uint8 [N, 28, 28]: what
    `points` of accuracy are measured on.
    """
    shutil.copytree(base, folder)
    content = (base / _GRAPH).read_bytes()
    if kind == "worse":
        graph = _worse(content, images, labels, points)
        with np.load(base / "golden.npz") as golden:
            inputs = golden["inputs"]
        _write(folder, version, None, golden_file(inputs, logits(graph, inputs)), graph)
        return folder
    _write(folder, version, _SPOILT[kind](content), None, None)
    return folder


def accuracy(graph: bytes, images: Images, labels: NDArray[np.uint8]) -> float:
    return float((logits(graph, images).argmax(axis=1) == labels).mean())


def logits(graph: bytes, images: Images) -> NDArray[np.float32]:
    """float32 [N, 10]."""
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {session.get_inputs()[0].name: images})
    return np.asarray(found, np.float32)


def _worse(content: bytes, images: Images, labels: NDArray[np.uint8], points: float) -> bytes:
    """Noise on the last layer, as much as takes the accuracy down by so many points: the closest
    that halving the step finds.
    """
    wanted = accuracy(content, images, labels) - points / 100
    noise = np.random.default_rng(11).normal(size=_values(content, _HEAD).shape)
    low, high, best = 0.0, 0.5, (1.0, content)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        graph = _with(content, _HEAD, partial(np.add, middle * noise))
        found = accuracy(graph, images, labels)
        best = min(best, (abs(found - wanted), graph))
        low, high = (middle, high) if found > wanted else (low, middle)
    return best[1]


def _nan(content: bytes) -> bytes:
    return _with(content, _BIAS, lambda bias: np.full_like(bias, np.nan))


def _cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def _slow(content: bytes) -> bytes:
    """Sums that are too small to change the answer, and take their time."""
    model = onnx.load_from_string(content)
    graph = model.graph
    head = graph.node[-1]
    features = head.input[0]
    (width,) = {w.shape[1] for w in (_values(content, _HEAD),)}
    tiny = helper.make_tensor("tiny", TensorProto.FLOAT, [1], [1e-30])
    shape = np.array([width, _SLOW_WIDTH], np.int64)
    axes = np.array([1], np.int64)
    graph.initializer.extend([
        numpy_helper.from_array(shape, "slow.shape"), numpy_helper.from_array(axes, "slow.axes")
    ])  # fmt: skip
    head.input[0] = "slow.out"
    added = [
        helper.make_node("ConstantOfShape", ["slow.shape"], ["slow.weight"], value=tiny),
        helper.make_node("MatMul", [features, "slow.weight"], ["slow.wide"]),
        helper.make_node("Sin", ["slow.wide"], ["slow.sin"]),
        helper.make_node("ReduceSum", ["slow.sin", "slow.axes"], ["slow.sum"], keepdims=1),
        helper.make_node("Add", [features, "slow.sum"], ["slow.out"]),
    ]
    rest = list(graph.node)
    del graph.node[:]
    graph.node.extend([*rest[:-1], *added, rest[-1]])
    return bytes(model.SerializeToString())


_SPOILT: dict[Literal["nan", "load", "slow"], Callable[[bytes], bytes]] = {
    "nan": _nan, "load": _cut, "slow": _slow
}  # fmt: skip


def _values(content: bytes, name: str) -> NDArray[np.float32]:
    model = onnx.load_from_string(content)
    (tensor,) = [one for one in model.graph.initializer if one.name == name]
    return np.array(numpy_helper.to_array(tensor), np.float32)


def _with(
    content: bytes, name: str, change: Callable[[NDArray[np.float32]], NDArray[np.floating]]
) -> bytes:
    model = onnx.load_from_string(content)
    (tensor,) = [one for one in model.graph.initializer if one.name == name]
    changed = change(np.array(numpy_helper.to_array(tensor), np.float32)).astype(np.float32)
    tensor.CopyFrom(numpy_helper.from_array(changed, name))
    return bytes(model.SerializeToString())


def _write(
    folder: Path, version: str, openvino: bytes | None, golden: bytes | None, graph: bytes | None
) -> None:
    """`openvino`: that engine's graph where it is another one."""
    path = folder / "manifest.json"
    manifest: dict[str, Any] = json.loads(path.read_text())
    manifest["version"] = version
    if graph is not None:
        (folder / _GRAPH).write_bytes(graph)
    if golden is not None:
        (folder / "golden.npz").write_bytes(golden)
        manifest["golden"]["file"] = _listed(folder, "golden.npz")
    kept = []
    for variant in manifest["variants"]:
        if variant["precision"] != "int8":
            continue
        name = _GRAPH
        if openvino is not None and variant["engine"] == "openvino":
            name = _OPENVINO
            (folder / name).write_bytes(openvino)
        kept.append({**variant, "file": _listed(folder, name)})
    manifest["variants"] = kept
    for part in ("tolerance", "agreement_min"):
        manifest["golden"][part] = {"int8": manifest["golden"][part]["int8"]}
    for file in folder.glob("*.fp32.onnx"):
        file.unlink()
    path.write_text(json.dumps(manifest, indent=1) + "\n")


def _listed(folder: Path, name: str) -> dict[str, object]:
    content = (folder / name).read_bytes()
    return {"path": name, "sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
