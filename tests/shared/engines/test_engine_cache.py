from dataclasses import replace
from pathlib import Path

import pytest

from shared.engines.engine_cache import CacheKey, load_compiled, store_compiled

KEY = CacheKey(artifact_sha256="a" * 64, gpu="NVIDIA T4", runtime_version="10.3.0", batch_max=32)


@pytest.mark.parametrize(
    "other",
    [
        replace(KEY, artifact_sha256="b" * 64),
        replace(KEY, gpu="NVIDIA T4G"),
        replace(KEY, runtime_version="10.3.1"),
        replace(KEY, batch_max=16),
        replace(KEY, gpu="NVIDIA T410.3.0", runtime_version=""),
    ],
)
def test_any_difference_is_another_file(other: CacheKey) -> None:
    assert other.file_name != KEY.file_name
    assert replace(KEY).file_name == KEY.file_name


def test_kept_and_found(tmp_path: Path) -> None:
    assert load_compiled(tmp_path / "cache", KEY) is None
    store_compiled(tmp_path / "cache", KEY, b"plan")
    assert load_compiled(tmp_path / "cache", KEY) == b"plan"
    assert load_compiled(tmp_path / "cache", replace(KEY, batch_max=1)) is None
    assert [entry.name for entry in (tmp_path / "cache").iterdir()] == [KEY.file_name]


def test_no_cache(tmp_path: Path) -> None:
    store_compiled(None, KEY, b"plan")
    assert load_compiled(None, KEY) is None


@pytest.mark.parametrize("content", [b"", b"short", bytes(32) + b"plan"])
def test_a_damaged_file_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / KEY.file_name).write_bytes(content)
    assert load_compiled(tmp_path, KEY) is None


def test_a_place_that_cannot_be_written_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    store_compiled(tmp_path / "file", KEY, b"plan")
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_full_disk_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    store_compiled(tmp_path, KEY, b"plan")
    assert list(tmp_path.iterdir()) == []
