"""What a bundle's model takes on this machine: it is loaded as the pool loads it, and measured."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cloud.serving.loading import load, resident_bytes
from cloud.serving.pool_sources import Source
from cloud.serving.settings import ModelSettings
from shared.bundle.manifest import Manifest
from shared.bundle.reader import open_bundle


@dataclass(frozen=True, slots=True)
class BundleMemory:
    """Bytes. `how`: where the activations are from."""

    weights: int
    activations: int
    how: str


def bundle_memory(
    path: Path, batch: int, process_bytes: Callable[[], int] = resident_bytes
) -> BundleMemory:
    """Weights by the chosen variant's file, the rest by what this process grew by.

    `process_bytes` says what it occupies. Raises what opening a bundle and its engines raise.
    """
    settings = ModelSettings(bundle=path)
    manifest = open_bundle(path).manifest
    with tempfile.TemporaryDirectory(prefix="hybridge-size-") as cache:
        loaded = load(
            Source(manifest, settings, configured=True), size_max=batch, cache_dir=Path(cache),
            process_bytes=process_bytes,
        )  # fmt: skip
    variant = loaded.model.variant
    loaded.model.close()
    weights = _file_bytes(manifest, variant)
    return BundleMemory(
        weights,
        max(0, loaded.memory_bytes - weights),
        f"measured: what a process grew by, running {variant} with batches of {batch}",
    )


def _file_bytes(manifest: Manifest, key: str) -> int:
    return next(
        (one.file.bytes for one in manifest.variants if one.key == key),
        max(one.file.bytes for one in manifest.variants),
    )
