"""A whole valid bundle of a few kilobytes, for tests of everything that needs a model.

The model is no mystery: pixel i belongs to label i % labels, and a label's logit is `scale` times
the mean brightness (0..1) of its pixels. So `sure_image(1)` is answered with 1 and near certainty,
`unsure_image()` with 1 / labels. `shift` makes a model that answers (label + shift) % labels: a
cloud model that can be told from the edge model by its answers.
"""

import hashlib
import json
from io import BytesIO
from pathlib import Path
from typing import Literal

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from shared.bundle.manifest import (
    Calibration,
    File,
    Golden,
    Guarantee,
    Lineage,
    Manifest,
    PayloadCodec,
    Sketch,
    Tensor,
    Threshold,
    Variant,
)

CARD = b"""# Tiny
Task: answers with the brightest group of pixels. Training data: none.
Limits and known failure modes: it knows nothing else.
"""
SIDE = 4
_PIXELS = SIDE * SIDE


def sure_image(label: int, *, labels: int = 3) -> NDArray[np.uint8]:
    """uint8 [4, 4]: the model answers `label` with near certainty."""
    lit = np.arange(_PIXELS) % labels == label
    return np.where(lit, 255, 0).astype(np.uint8).reshape(SIDE, SIDE)


def unsure_image(grey: int = 128) -> NDArray[np.uint8]:
    """uint8 [4, 4]: equal logits but for rounding; some label wins, with 1 / labels."""
    return np.full((SIDE, SIDE), grey, np.uint8)


def tiny_logits(
    images: NDArray[np.uint8], *, labels: int = 3, scale: float = 12.0, shift: int = 0
) -> NDArray[np.float32]:
    """What the model answers to uint8 [N, 4, 4]: float32 [N, labels]."""
    flat = images.reshape(-1, _PIXELS).astype(np.float32) * np.float32(1 / 255)
    return np.asarray(flat @ _weights(labels, scale, shift), np.float32)


def tiny_onnx(*, labels: int = 3, scale: float = 12.0, shift: int = 0) -> bytes:
    """The graph: "image" uint8 [N, 4, 4] -> "logits" float32 [N, labels], core operators only."""
    constants = {
        "to_unit": np.float32(1 / 255),
        "flat": np.array([-1, _PIXELS], np.int64),
        "weights": _weights(labels, scale, shift),
    }
    graph = helper.make_graph(
        [
            helper.make_node("Cast", ["image"], ["grey"], to=TensorProto.FLOAT),
            helper.make_node("Mul", ["grey", "to_unit"], ["unit"]),
            helper.make_node("Reshape", ["unit", "flat"], ["pixels"]),
            helper.make_node("MatMul", ["pixels", "weights"], ["logits"]),
        ],
        "tiny",
        [helper.make_tensor_value_info("image", TensorProto.UINT8, ["n", SIDE, SIDE])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", labels])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString())


def write_tiny_bundle(
    folder: Path,
    *,
    name: str = "tiny-edge",
    version: str = "1.0.0",
    labels: int = 3,
    scale: float = 12.0,
    shift: int = 0,
    variants: tuple[str, ...] = ("onnxruntime/fp32",),
    confidence_min: float = 0.8,
    escalates: bool = True,
    answers_for: tuple[str, ...] = (),
    codec: Literal["raw", "zstd", "grey4"] = "raw",
    dictionary: bytes = b"",
    golden_samples: int = 16,
) -> Path:
    """Write the bundle into `folder`, which is made; returns `folder`.

    A cloud model: `name="tiny-cloud", escalates=False, answers_for=("tiny-edge",), shift=1`.
    """
    (folder / "variants").mkdir(parents=True)
    images = np.random.default_rng(7).integers(0, 256, (golden_samples, SIDE, SIDE), np.uint8)
    golden = BytesIO()
    np.savez(
        golden,
        inputs=images,
        outputs=tiny_logits(images, labels=labels, scale=scale, shift=shift),
    )
    graph = _put(folder, "variants/model.onnx", tiny_onnx(labels=labels, scale=scale, shift=shift))
    manifest = Manifest(
        format=1,
        name=name,
        version=version,
        task="classify",
        inputs=(Tensor(name="image", dtype="uint8", shape=(SIDE, SIDE)),),
        outputs=(Tensor(name="logits", dtype="float32", shape=(labels,)),),
        labels=tuple(f"class-{number}" for number in range(labels)),
        answers_for=answers_for,
        variants=tuple(
            Variant.model_validate({"engine": engine, "precision": precision, "file": graph})
            for engine, precision in (key.split("/") for key in variants)
        ),
        calibration=_calibration(confidence_min)
        if escalates
        else Calibration(temperature=1.0, score="max_softmax"),
        golden=Golden(
            file=_put(folder, "golden.npz", golden.getvalue()),
            tolerance={"fp32": 1e-3, "fp16": 0.1, "bf16": 0.3, "int8": 0.5},
            agreement_min={"fp32": 1.0, "fp16": 0.9, "bf16": 0.9, "int8": 0.9},
        ),
        payload=PayloadCodec(
            codec=codec,
            dictionary=_put(folder, "payload.dict", dictionary) if dictionary else None,
        ),
        reference=(Sketch(feature="input.mean", edges=(64.0, 128.0, 192.0), counts=(1, 7, 7, 1)),),
        lineage=Lineage(
            data_set="none",
            data_sha256="0" * 64,
            code_version="tests",
            hyperparameters={"scale": scale},
            metrics={"accuracy": 1.0},
        ),
        card=_put(folder, "card.md", CARD),
    )
    rewrite_manifest(folder, manifest)
    return folder


def rewrite_manifest(folder: Path, manifest: Manifest) -> None:
    """(Over)write `manifest.json`, for a bundle that a test spoils on purpose."""
    text = json.dumps(manifest.model_dump(mode="json"), indent=1)
    (folder / "manifest.json").write_text(text + "\n")


def file_of(path: str, content: bytes) -> File:
    """How a manifest lists `content`."""
    return File(path=path, sha256=hashlib.sha256(content).hexdigest(), bytes=len(content))


def _put(folder: Path, path: str, content: bytes) -> File:
    (folder / path).write_bytes(content)
    return file_of(path, content)


def _weights(labels: int, scale: float, shift: int) -> NDArray[np.float32]:
    """[pixels, labels]: a label's column averages its own pixels."""
    owner = (np.arange(_PIXELS) + shift) % labels
    member = (owner[:, None] == np.arange(labels)).astype(np.float32)
    return np.asarray(scale * member / member.sum(axis=0), np.float32)


def _calibration(confidence_min: float) -> Calibration:
    return Calibration(
        temperature=1.0,
        score="max_softmax",
        thresholds=(
            Threshold(
                name="balanced",
                confidence_min=confidence_min,
                guarantee=Guarantee(
                    statement="none: made for tests",
                    method="none",
                    epsilon=0.01,
                    delta=0.05,
                    samples=0,
                ),
                escalated_share=0.2,
                hybrid_accuracy=1.0,
            ),
            Threshold(
                name="everything",
                confidence_min=1.1,
                guarantee=None,
                escalated_share=1.0,
                hybrid_accuracy=1.0,
            ),
        ),
        default_threshold="balanced",
    )
