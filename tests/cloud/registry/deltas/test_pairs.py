"""Which files a device would want a delta between."""

from cloud.registry.deltas.pairs import pairs
from cloud.registry.deltas.settings import DeltaSettings
from cloud.registry.documents import LaunchRecord, ModelVersion, Origin, State, StoredFile

SETTINGS = DeltaSettings(bytes_min=100, bytes_max=1000, releases=2)


def file(path: str, mark: str, size: int = 500) -> StoredFile:
    return StoredFile(path=path, sha256=mark * 64, bytes=size)


def version(name: str, number: int, *files: StoredFile) -> ModelVersion:
    launch = LaunchRecord(number=number, at=0, by="op", comment="", trust_version=1)
    return ModelVersion(
        model="m", version=name, state=State.RELEASED, why="", manifest=file("manifest.json", "0"),
        files=files, task="classification", card="0" * 64, origin=Origin(), lineage={},
        pushed_by="t", pushed_at=0, launches=(launch,), revision=1,
    )  # fmt: skip


def test_the_same_path_from_the_newest_releases_first() -> None:
    old = [version(f"1.{n}.0", n, file("a.onnx", f"{n}")) for n in (1, 3, 2)]
    new = version("2.0.0", 4, file("a.onnx", "a"), file("b.onnx", "b"))
    assert pairs(new, old, SETTINGS) == [("3" * 64, "a" * 64), ("2" * 64, "a" * 64)]


def test_not_from_itself_and_not_for_the_same_content() -> None:
    new = version("2.0.0", 4, file("a.onnx", "a"), file("b.onnx", "b"))
    old = version("1.0.0", 3, file("a.onnx", "a"), file("b.onnx", "c"))
    assert pairs(new, [old, new], SETTINGS) == [("c" * 64, "b" * 64)]


def test_not_for_files_too_small_or_too_large() -> None:
    new = version("2.0.0", 4, file("a", "a", 99), file("b", "b", 100), file("c", "c", 1001))
    old = version("1.0.0", 3, file("a", "1"), file("b", "2"), file("c", "3"))
    assert pairs(new, [old], SETTINGS) == [("2" * 64, "b" * 64)]
    large = version("1.0.0", 3, file("b", "2", 1001))
    assert pairs(new, [large], SETTINGS) == []


def test_each_pair_once() -> None:
    new = version("2.0.0", 4, file("a.onnx", "a"), file("b.onnx", "a"))
    old = version("1.0.0", 3, file("a.onnx", "1"), file("b.onnx", "1"))
    assert pairs(new, [old], SETTINGS) == [("1" * 64, "a" * 64)]
