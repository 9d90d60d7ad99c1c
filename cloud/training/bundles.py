"""Write a bundle folder: graphs, golden samples, dictionary, sketches, card, manifest."""

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import numpy as np
import zstandard
from numpy.typing import NDArray

from shared.bundle.manifest import (
    Calibration,
    File,
    Golden,
    Lineage,
    Manifest,
    PayloadCodec,
    Precision,
    Sketch,
    Tensor,
    Variant,
)
from shared.wire.pixels import pack_grey4

DICTIONARY_BYTES = 32 * 1024
EDGES_MAX = 32
_QUANTILES = (0.0005, 0.005, *np.linspace(0, 1, 17)[1:-1], 0.995, 0.9995)
_TAIL_MAX = 0.002  # share of an outermost bin
_TOLERANCE = {"int8": 1.5, "fp16": 0.1, "bf16": 0.5, "fp32": 0.01}  # of logits, largest difference
_AGREEMENT = {"int8": 0.95, "fp16": 0.98, "bf16": 0.97, "fp32": 1.0}


@dataclass(frozen=True, slots=True)
class Graph:
    """One file and what it serves: `engines` maps an engine to the precision it runs in."""

    name: str
    content: bytes
    engines: tuple[tuple[str, str], ...]
    runtime: Mapping[str, str]


def golden_file(inputs: NDArray[np.uint8], outputs: NDArray[np.float32]) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, inputs=inputs, outputs=outputs)
    return buffer.getvalue()


def grey4_dictionary(images: NDArray[np.uint8]) -> bytes:
    """A zstandard dictionary of sixteen-level images, trained on `images` [N, H, W]."""
    samples: list[bytes | bytearray | memoryview[int]] = [pack_grey4(image) for image in images]
    return zstandard.train_dictionary(DICTIONARY_BYTES, samples).as_bytes()


def sketch(feature: str, values: NDArray[np.floating]) -> Sketch:
    """Counts of finite `values` [N] between its own quantiles: what drift is later measured against.

    Few lie in the outermost bins (one in 2,000 each), so a device takes what does for unlike the
    reference. Predicted classes have a bin each.
    """
    if feature == "predicted_class":
        edges = np.unique(np.linspace(0, values.max(), EDGES_MAX).round())
    else:
        edges = np.unique(np.quantile(values, _QUANTILES))
        above = values[values >= edges[-1]]
        if len(above) > _TAIL_MAX * len(values):  # many have the last edge's very value
            edges = np.append(edges, _beyond(edges[-1], above))
    counts = np.bincount(np.searchsorted(edges, values, side="right"), minlength=len(edges) + 1)
    return Sketch(feature=feature, edges=tuple(map(float, edges)), counts=tuple(map(int, counts)))


def _beyond(edge: float, above: NDArray[np.floating]) -> float:
    """Half way to the next value that there is, or a little above the last one."""
    larger = above[above > edge]
    return float((edge + larger.min()) / 2 if len(larger) else edge + max(abs(edge), 1.0) / 1000)


def write(
    folder: Path, *, name: str, version: str, answers_for: tuple[str, ...], labels: tuple[str, ...],
    graphs: tuple[Graph, ...], golden: bytes, dictionary: bytes, calibration: Calibration,
    reference: tuple[Sketch, ...], lineage: Lineage, card: str, image_shape: tuple[int, int],
) -> Manifest:  # fmt: skip
    """Write every file and `manifest.json` into `folder`, replacing what stood there."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    variants = [
        Variant.model_validate(
            {"engine": engine, "precision": precision, "runtime": {
                k: v for k, v in graph.runtime.items() if k == engine},
             "file": _file(folder, f"{graph.name}.onnx", graph.content).model_dump()}
        )
        for graph in graphs
        for engine, precision in graph.engines
    ]  # fmt: skip
    used = {variant.precision for variant in variants}
    precisions: tuple[Precision, ...] = tuple(p for p in get_args(Precision) if p in used)
    manifest = Manifest(
        format=1, name=name, version=version, task="classify", answers_for=answers_for,
        inputs=(Tensor(name="image", dtype="uint8", shape=image_shape),),
        outputs=(Tensor(name="logits", dtype="float32", shape=(len(labels),)),),
        labels=labels, variants=tuple(variants), calibration=calibration,
        golden=Golden(
            file=_file(folder, "golden.npz", golden),
            tolerance={p: _TOLERANCE[p] for p in precisions},
            agreement_min={p: _AGREEMENT[p] for p in precisions},
        ),
        payload=PayloadCodec(codec="grey4", dictionary=_file(folder, "grey4.dict", dictionary)),
        reference=reference, lineage=lineage, card=_file(folder, "card.md", card.encode()),
    )  # fmt: skip
    text = json.dumps(manifest.model_dump(mode="json"), indent=1) + "\n"
    Path(folder, "manifest.json").write_text(text)
    return manifest


def _file(folder: Path, path: str, content: bytes) -> File:
    Path(folder, path).write_bytes(content)
    return File(path=path, sha256=hashlib.sha256(content).hexdigest(), bytes=len(content))
