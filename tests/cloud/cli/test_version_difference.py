import hashlib
from pathlib import Path

from cloud.cli.version_difference import Side, difference
from cloud.registry.documents import (
    Delta,
    Evaluation,
    Hardware,
    ModelVersion,
    Origin,
    State,
    StoredFile,
)
from shared.bundle.manifest import Manifest
from shared.bundle.reader import open_bundle
from tests.tiny_bundle import write_tiny_bundle


def side(manifest: Manifest, accuracy: float | None = None, hardware: str = "a") -> Side:
    content = manifest.model_dump_json().encode()
    version = ModelVersion(
        model=manifest.name, version=manifest.version, state=State.TRAINED, why="", files=tuple(
            StoredFile(path=file.path, sha256=file.sha256, bytes=file.bytes)
            for file in {file.path: file for file in manifest.files()}.values()
        ), task=manifest.task, card=manifest.card.sha256, origin=Origin(), lineage={},
        manifest=StoredFile(
            path="manifest.json", sha256=hashlib.sha256(content).hexdigest(), bytes=len(content)
        ), pushed_by="anna", pushed_at=0.0, revision=1,
    )  # fmt: skip
    evaluation = Evaluation(
        id="0" * 36, model=manifest.name, version=manifest.version, state="passed", queued_at=0.0,
        queued_by="anna", metrics={"onnxruntime/fp32": {"accuracy": accuracy or 0.0}},
        hardware=Hardware(
            fingerprint=hardware, cpu="", cores=1, memory_bytes=1, system="", engines={}
        ),
    )  # fmt: skip
    return Side(version, manifest, None if accuracy is None else evaluation)


def two(tmp_path: Path) -> tuple[Manifest, Manifest]:
    before = open_bundle(write_tiny_bundle(tmp_path / "a")).manifest
    after = open_bundle(write_tiny_bundle(tmp_path / "b", version="1.1.0", shift=1)).manifest
    return before, after


def test_fields_files_and_bytes(tmp_path: Path) -> None:
    before, after = two(tmp_path)
    found = difference(side(before), side(after), {})
    assert ("version", "1.0.0", "1.1.0") in [(f.name, f.before, f.after) for f in found.fields]
    assert not [field for field in found.fields if field.name.startswith(("variants", "card"))]
    changes = {file.path: file.change for file in found.files}
    assert set(changes.values()) == {"same", "changed"}
    assert changes["card.md"] == "same"
    coming = sum(f.after_bytes or 0 for f in found.files if f.change == "changed")
    manifest_bytes = side(after).version.manifest.bytes
    assert found.download_bytes == coming + manifest_bytes
    everything = {f.sha256: f.bytes for f in side(after).version.files}
    assert found.full_bytes == sum(everything.values()) + manifest_bytes


def test_a_delta_from_a_file_that_is_there_makes_it_less(tmp_path: Path) -> None:
    before, after = two(tmp_path)
    old, new = before.variants[0].file, after.variants[0].file
    assert old.sha256 != new.sha256
    here = Delta(from_sha256=old.sha256, to_sha256=new.sha256, sha256="d" * 64, bytes=5)
    elsewhere = Delta(from_sha256="e" * 64, to_sha256=new.sha256, sha256="f" * 64, bytes=1)
    full = difference(side(before), side(after), {new.sha256: [elsewhere]})
    assert not any(file.by_delta for file in full.files)
    found = difference(side(before), side(after), {new.sha256: [elsewhere, here]})
    (changed,) = (file for file in found.files if file.path == new.path)
    assert (changed.by_delta, changed.download_bytes) == (True, 5)
    assert full.download_bytes - found.download_bytes == new.bytes - 5


def test_added_and_removed_files(tmp_path: Path) -> None:
    before, _ = two(tmp_path)
    moved = before.variants[0].file.model_copy(update={"path": "other.onnx"})
    variant = before.variants[0].model_copy(update={"file": moved})
    after = before.model_copy(update={"variants": (variant, *before.variants[1:])})
    found = {file.path: file for file in difference(side(before), side(after), {}).files}
    assert found["other.onnx"].change == "added"
    assert found["other.onnx"].download_bytes == 0  # the same content lies there already
    assert found[before.variants[0].file.path].change == "removed"


def test_figures_side_by_side(tmp_path: Path) -> None:
    before, after = two(tmp_path)
    found = difference(side(before, 0.5), side(after, 0.75), {})
    assert [(f.of, f.metric, f.before, f.after) for f in found.evaluations] == [
        ("onnxruntime/fp32", "accuracy", 0.5, 0.75)
    ]
    assert not found.evaluated_on_other_hardware
    assert difference(side(before, 0.5), side(after, 0.5, "b"), {}).evaluated_on_other_hardware
    only = difference(side(before), side(after, 0.75), {}).evaluations
    assert [(f.before, f.after) for f in only] == [(None, 0.75)]


def test_a_version_beside_itself_differs_in_nothing(tmp_path: Path) -> None:
    before, _ = two(tmp_path)
    found = difference(side(before), side(before), {})
    assert not found.fields
    assert {file.change for file in found.files} == {"same"}
    assert found.download_bytes == found.full_bytes - sum(
        {f.sha256: f.bytes for f in side(before).version.files}.values()
    )
