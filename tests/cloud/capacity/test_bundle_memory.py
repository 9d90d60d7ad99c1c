from pathlib import Path

import pytest

from cloud.capacity.bundle_memory import bundle_memory
from shared.bundle.reader import open_bundle
from tests.cloud.workers import cloud_bundle


@pytest.mark.parametrize("grown", [10_000_000, 0])
def test_what_a_process_grows_by_is_weights_and_activations(tmp_path: Path, grown: int) -> None:
    path = cloud_bundle(tmp_path)
    (variant,) = open_bundle(path).manifest.variants
    sizes = iter([50_000_000, 50_000_000 + grown])
    found = bundle_memory(path, 4, lambda: next(sizes))
    assert found.weights == variant.file.bytes
    assert found.activations == max(0, grown - found.weights)
    assert "batches of 4" in found.how
