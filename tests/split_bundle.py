"""A tiny model cut in two: a backbone that embeds, and heads that take what it gives.

The cut of `tests/tiny_bundle.py`'s model: the backbone gives the brightness of each pixel, float32
[16]; a head gives the logits of one `shift`. So head and backbone together are the tiny model.
"""

from io import BytesIO
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from shared.bundle.manifest import Backbone, Golden, Manifest, Tensor
from shared.bundle.reader import open_bundle
from tests.tiny_bundle import (
    SIDE,
    file_of,
    rewrite_manifest,
    tiny_logits,
    write_tiny_bundle,
)

FEATURES = SIDE * SIDE
_ONE_PIXEL_EACH = np.eye(FEATURES, dtype=np.uint8) * np.uint8(255)
BACKBONE = Backbone(name="tiny-backbone", version="1.0.0")


def tiny_features(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """What the backbone gives for uint8 [N, 4, 4]: float32 [N, 16]."""
    flat = images.reshape(-1, FEATURES).astype(np.float32)
    return np.asarray(flat * np.float32(1 / 255), np.float32)


def write_backbone(folder: Path, *, version: str = BACKBONE.version) -> Path:
    """A bundle of task "embed": "image" uint8 [N, 4, 4] -> "features" float32 [N, 16]."""
    write_tiny_bundle(folder, name=BACKBONE.name, version=version, escalates=False)
    images = _golden_images(folder)
    return _rebuilt(
        folder, _backbone_graph(), images, tiny_features(images),
        task="embed", labels=(),
        outputs=(Tensor(name="features", dtype="float32", shape=(FEATURES,)),),
    )  # fmt: skip


def write_head(
    folder: Path, *, name: str = "tiny-head", shift: int = 0, backbone: Backbone = BACKBONE
) -> Path:
    """A bundle of a head: "features" float32 [N, 16] -> "logits" float32 [N, 3]."""
    write_tiny_bundle(folder, name=name, escalates=False, shift=shift)
    images = _golden_images(folder)
    return _rebuilt(
        folder, _head_graph(shift), tiny_features(images), tiny_logits(images, shift=shift),
        backbone=backbone,
        inputs=(Tensor(name="features", dtype="float32", shape=(FEATURES,)),),
    )  # fmt: skip


def _golden_images(folder: Path) -> NDArray[np.uint8]:
    return np.asarray(open_bundle(folder).golden.inputs, np.uint8)


def _rebuilt(
    folder: Path,
    graph: bytes,
    golden_inputs: NDArray[np.generic],
    golden_outputs: NDArray[np.float32],
    **changed: object,
) -> Path:
    manifest = open_bundle(folder).manifest
    packed = BytesIO()
    np.savez(packed, inputs=golden_inputs, outputs=golden_outputs)
    for path, content in (("variants/model.onnx", graph), ("golden.npz", packed.getvalue())):
        (folder / path).write_bytes(content)
    golden = Golden(
        file=file_of("golden.npz", packed.getvalue()),
        tolerance=manifest.golden.tolerance,
        agreement_min=manifest.golden.agreement_min,
    )
    variants = tuple(
        variant.model_copy(update={"file": file_of("variants/model.onnx", graph)})
        for variant in manifest.variants
    )
    changed |= {"golden": golden, "variants": variants}
    parts = {name: getattr(manifest, name) for name in Manifest.model_fields} | changed
    rewrite_manifest(folder, Manifest.model_validate(parts))
    return folder


def _backbone_graph() -> bytes:
    constants = {
        "to_unit": np.float32(1 / 255),
        "flat": np.array([-1, FEATURES], np.int64),
    }
    return _graph(
        [
            helper.make_node("Cast", ["image"], ["grey"], to=TensorProto.FLOAT),
            helper.make_node("Mul", ["grey", "to_unit"], ["unit"]),
            helper.make_node("Reshape", ["unit", "flat"], ["features"]),
        ],
        helper.make_tensor_value_info("image", TensorProto.UINT8, ["n", SIDE, SIDE]),
        helper.make_tensor_value_info("features", TensorProto.FLOAT, ["n", FEATURES]),
        constants,
    )


def _head_graph(shift: int) -> bytes:
    return _graph(
        [helper.make_node("MatMul", ["features", "weights"], ["logits"])],
        helper.make_tensor_value_info("features", TensorProto.FLOAT, ["n", FEATURES]),
        helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", 3]),
        {"weights": tiny_logits(_ONE_PIXEL_EACH, shift=shift)},
    )


def _graph(
    nodes: list[onnx.NodeProto],
    taken: onnx.ValueInfoProto,
    given: onnx.ValueInfoProto,
    constants: dict[str, object],
) -> bytes:
    graph = helper.make_graph(
        nodes, "tiny", [taken], [given],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString())
