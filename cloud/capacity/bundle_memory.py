"""What a bundle's model takes on this machine: it is loaded as the pool loads it, and measured."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from cloud.serving.loading import load
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


def bundle_memory(path: Path, batch: int) -> BundleMemory:
    """Weights by the chosen variant's file, the rest by what this process grew by.

    Raises what opening a bundle and its engines raise.
    """
    settings = ModelSettings(bundle=path)
    manifest = open_bundle(path).manifest
    with tempfile.TemporaryDirectory(prefix="hybridge-size-") as cache:
        loaded = load(
            Source(manifest, settings, configured=True), size_max=batch, cache_dir=Path(cache)
        )
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
