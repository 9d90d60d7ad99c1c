"""A loaded model with its queue, as requests meet it."""

import numpy as np

from cloud.serving.batcher import Batcher
from cloud.serving.model import LoadedModel
from shared.bundle.manifest import Manifest, Tensor
from shared.oip.datatypes import datatype_of
from shared.oip.signature import Signature, TensorSpec


class Served:
    """Look it up anew for each request, and let go of it with the request's answer.

    A version that was replaced stays open until nobody holds its `Served` any more, so that a
    request which found it just before can still use it (`cloud/serving/retiring.py`).
    """

    __slots__ = (
        "__weakref__", "batcher", "manifest", "memory_bytes", "model", "name", "pinned",
        "signature", "used_at", "version",
    )  # fmt: skip

    def __init__(
        self, model: LoadedModel, batcher: Batcher, *, memory_bytes: int = 0, pinned: bool = False
    ) -> None:
        self.model, self.batcher = model, batcher
        self.manifest = model.manifest
        self.name, self.version = model.name, model.version
        self.signature = signature_of(model.manifest, model.sample, model.engine)
        self.memory_bytes, self.pinned = memory_bytes, pinned
        self.used_at = 0.0  # by the pool's clock


def signature_of(manifest: Manifest, sample: Tensor, platform: str) -> Signature:
    """What a request carries; the graph's own first output, raw, then what is made of it for people.

    A model that only embeds has no labels, and so nothing to say to people.
    """
    outputs = [_spec(manifest.outputs[0])]
    if manifest.labels:
        outputs += [
            TensorSpec("probabilities", "FP32", (-1, len(manifest.labels))),
            TensorSpec("label", "BYTES", (-1,)),
            TensorSpec("index", "INT64", (-1,)),
            TensorSpec("confidence", "FP32", (-1,)),
            TensorSpec("source", "BYTES", (-1,)),
        ]
    return Signature(
        name=manifest.name,
        versions=(manifest.version,),
        platform=platform,
        inputs=(_spec(sample),),
        outputs=tuple(outputs),
    )


def _spec(tensor: Tensor) -> TensorSpec:
    return TensorSpec(tensor.name, datatype_of(np.dtype(tensor.dtype)), (-1, *tensor.shape))
