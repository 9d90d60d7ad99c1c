"""From a bundle on disk to a model that is ready to serve. Takes seconds, so it belongs in a thread."""

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cloud.serving.model import LoadedModel
from cloud.serving.opening import engines_for, open_best
from cloud.serving.pool_sources import Source
from shared.bundle.manifest import Manifest, Tensor
from shared.bundle.reader import open_bundle
from shared.errors import NotTrusted

log = logging.getLogger(__name__)

_SESSION_BYTES = 8 * 1024 * 1024  # plans, kernels, allocators: 3 (onnxruntime) to 20 MB (OpenVINO)
_ACTIVATIONS = 8  # what lies between input and output, in multiples of both together
_COPIES = 2  # of weights: as the file has them, and laid out for the kernels


@dataclass(frozen=True, slots=True)
class Loaded:
    model: LoadedModel
    memory_bytes: int  # what the process grew by, no less than the weights


def resident_bytes() -> int:
    """Of this process; 0 where the system does not say. It serves meanwhile, so what it grew by is
    only nearly what a model took.
    """
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def estimate_bytes(manifest: Manifest, *, size_max: int, remote: bool) -> int:
    """What a model will take, from its manifest alone: session, largest artifact, activations."""
    rows = size_max * sum(_row_bytes(tensor) for tensor in (*manifest.inputs, *manifest.outputs))
    if remote:
        return rows
    return _SESSION_BYTES + _COPIES * _artifact_bytes(manifest) + _ACTIVATIONS * rows


def load(
    source: Source,
    *,
    backbone: Manifest | None = None,
    size_max: int,
    cache_dir: Path,
    process_bytes: Callable[[], int] = resident_bytes,
) -> Loaded:
    """Verify, open, check against the golden samples, warm up, measure.

    `backbone` is that of a head. `process_bytes` says what this process occupies. Raises what `open_bundle` and `open_best` raise, and `NotTrusted` when the bundle is not the one
    that was found there before.
    """
    bundle = open_bundle(source.settings.bundle)
    if bundle.manifest != source.manifest:
        raise NotTrusted(
            f"{bundle.where}: changed while it was loaded; load {source.key.name} again"
        )
    stated = {variant.engine for variant in bundle.manifest.variants}
    for engine in engines_for(source.settings):
        if engine.name in stated:
            engine.probe()  # imports the runtime, which is no memory of this model
    before = process_bytes()
    opened = open_best(bundle, source.settings, cache_dir=cache_dir, size_max=size_max)
    try:
        sample = None if backbone is None else backbone.inputs[0]
        model = LoadedModel(bundle, opened, size_max=size_max, sample=sample)
    except BaseException:
        opened.session.close()
        raise
    grown = process_bytes() - before
    log.info(
        "model_loaded",
        extra={
            "model": model.name, "version": model.version, "variant": model.variant,
            "why": model.why, "batch_ms": model.curve.table_ms(), "grown_bytes": grown,
            "others": opened.others,
        },
    )  # fmt: skip
    remote = source.settings.triton is not None
    return Loaded(model, 0 if remote else max(grown, _artifact_bytes(bundle.manifest)))


def _artifact_bytes(manifest: Manifest) -> int:
    return max(variant.file.bytes for variant in manifest.variants)


def _row_bytes(tensor: Tensor) -> int:
    return int(np.prod(tensor.shape)) * np.dtype(tensor.dtype).itemsize
