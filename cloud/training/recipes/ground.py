"""What a recipe stands on: base data, feedback, and the bundles that its order names, opened."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloud.feedback.data_file import BYTES_MAX, DataRows, read_rows
from cloud.training import evaluate
from cloud.training.child_messages import Order
from cloud.training.recipes import base_data
from cloud.training.recipes.base_data import BaseData
from shared.bundle.reader import Bundle, open_bundle
from shared.confidence import softmax
from shared.engines.engine import OpenOptions, Session
from shared.engines.onnxruntime_engine import OnnxRuntimeEngine
from shared.errors import Malformed, TooLarge, Unknown

Floats = NDArray[np.float32]
SERVED: Final = ("onnxruntime/int8", "onnxruntime/fp16", "onnxruntime/fp32")
"""A bundle is measured by the first of these that it has."""


@dataclass(frozen=True, slots=True)
class Answering:
    """An opened bundle that answers as it does where it serves."""

    bundle: Bundle
    session: Session

    def logits(self, images: NDArray[np.uint8]) -> Floats:
        """[N, classes]."""
        return evaluate.logits(self.session, images)

    def probabilities(self, images: NDArray[np.uint8]) -> Floats:
        """[N, classes], calibrated."""
        return softmax(self.logits(images), self.bundle.manifest.calibration.temperature)


def base_of(order: Order) -> BaseData:
    return base_data.load(order.base)


def feedback_of(order: Order) -> DataRows:
    """Raises `Unknown` when the job has no data set, and what reading it raises."""
    if order.data_set is None:
        raise Unknown("data_set: the job names none, and this recipe learns from feedback")
    path = order.data_set
    if not path.is_file():
        raise Unknown(f"{path}: there is no such data set; the worker brings it before it begins")
    if (size := path.stat().st_size) > BYTES_MAX:
        raise TooLarge(f"{path}: {size} bytes; at most {BYTES_MAX} are read: lower rows_max")
    return read_rows(path.read_bytes(), str(path))


def bundle_of(order: Order, ref: str, base: BaseData) -> Bundle:
    """Raises `Unknown` when the worker has not brought it, `Malformed` when it is for other images or labels:
    a label is its number, so the same names in another order teach everything wrong.
    """
    bundle = open_bundle(_path(order.bundles, ref))
    manifest = bundle.manifest
    if (is_of := f"{manifest.name}@{manifest.version}") != ref:
        raise Malformed(
            f"{ref}: what the worker brought is {is_of}; look at its bundle folders (worker.bundles)"
        )
    tensor = manifest.inputs[0]
    if manifest.task != "classify" or manifest.backbone is not None or len(manifest.inputs) != 1:
        raise Malformed(f"{ref}: is no whole classifier of one input; name one that is")
    if tensor.dtype != "uint8" or tensor.shape != base.image_shape:
        raise Malformed(
            f"{ref}: takes {tensor.dtype}{list(tensor.shape)}, the base data has "
            f"uint8{list(base.image_shape)}; name base data of this model"
        )
    if len(manifest.labels) != len(base.names):
        raise Malformed(
            f"{ref}: has {len(manifest.labels)} labels, the base data {len(base.names)}; name base "
            "data of this model"
        )
    for number, (has, wanted) in enumerate(zip(manifest.labels, base.names, strict=True)):
        if has != wanted:
            raise Malformed(
                f"{ref}: its label {number} is {has!r}, the base data's {wanted!r}; name base data of this "
                "model, with its labels in the same order"
            )
    return bundle


def hashes(base: BaseData, *bundles: Bundle | None, data_set: str | None = None) -> str:
    """Of all that rows are made from: base data, what answers for them, by each bundle's manifest, which
    has its files' hashes, and the feedback's content.
    """
    manifests = [
        None if one is None else hashlib.sha256(one.manifest.model_dump_json().encode()).hexdigest()
        for one in bundles
    ]
    return json.dumps([base.sha256, manifests, data_set])


def check_is_new(version: str, source: Bundle) -> None:
    """Raises `Malformed` where what it is made from has the version already."""
    manifest = source.manifest
    if version == manifest.version:
        ref = f"{manifest.name}@{manifest.version}"
        raise Malformed(f"version: {ref} has it; give what it makes another")


def answering(bundle: Bundle) -> Answering:
    """Raises `Unknown` for a bundle that ONNX Runtime cannot run."""
    variants = {variant.key: variant for variant in bundle.manifest.variants}
    for key in SERVED:
        if key in variants:
            return Answering(bundle, opened(bundle.read(variants[key].file), bundle.where))
    raise Unknown(
        f"{bundle.where}: has {', '.join(variants)}, none of which ONNX Runtime runs; name a version "
        f"with one of {', '.join(SERVED)}"
    )


def opened(graph: bytes, where: str) -> Session:
    return OnnxRuntimeEngine().open(graph, OpenOptions(where=where))


def _path(bundles: Mapping[str, Path], ref: str) -> Path:
    if ref not in bundles:
        raise Unknown(f"{ref}: the worker brought no such bundle; push it to the registry")
    return bundles[ref]
