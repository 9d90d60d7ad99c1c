import os
import shutil
from pathlib import Path

import pytest

from shared.bundle.reader import open_bundle
from shared.bundle.writer import pack, unpack
from shared.errors import InUse, Malformed, NotTrusted, Unavailable
from tests.tiny_bundle import file_of, rewrite_manifest, write_tiny_bundle


def test_there_and_back(tmp_path: Path) -> None:
    folder = write_tiny_bundle(tmp_path / "bundle", codec="grey4", dictionary=b"d" * 64)
    packed = pack(folder, tmp_path / "a.hyb")
    assert packed.manifest == open_bundle(folder).manifest
    unpacked = unpack(tmp_path / "a.hyb", tmp_path / "again")
    assert unpacked.where == str(tmp_path / "again")
    for path in folder.rglob("*"):
        if path.is_file():
            twin = tmp_path / "again" / path.relative_to(folder)
            assert twin.read_bytes() == path.read_bytes()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.hyb", "again", "bundle"]


def test_same_content_same_bytes(tmp_path: Path) -> None:
    folder = write_tiny_bundle(tmp_path / "bundle")
    pack(folder, tmp_path / "a.hyb")
    shutil.copytree(folder, tmp_path / "copy")
    for path in (tmp_path / "copy").rglob("*"):
        path.chmod(0o700)
        os.utime(path, (1, 1))
    pack(tmp_path / "copy", tmp_path / "b.hyb")
    assert (tmp_path / "a.hyb").read_bytes() == (tmp_path / "b.hyb").read_bytes()


def test_a_bad_folder_is_not_packed(tmp_path: Path) -> None:
    folder = write_tiny_bundle(tmp_path / "bundle")
    (folder / "card.md").write_text("other")
    with pytest.raises(NotTrusted, match=r"card\.md"):
        pack(folder, tmp_path / "a.hyb")
    assert not (tmp_path / "a.hyb").exists()


def test_no_folder_to_pack(tmp_path: Path) -> None:
    with pytest.raises(Malformed, match="there is no such folder"):
        pack(tmp_path / "nothing", tmp_path / "a.hyb")


def test_a_name_too_long_for_the_archive(tmp_path: Path) -> None:
    folder = write_tiny_bundle(tmp_path / "bundle")
    manifest = open_bundle(folder).manifest
    (folder / "card.md").rename(folder / ("c" * 150))
    card = file_of("c" * 150, (folder / ("c" * 150)).read_bytes())
    rewrite_manifest(folder, manifest.model_copy(update={"card": card}))
    with pytest.raises(Malformed, match="use shorter file names"):
        pack(folder, tmp_path / "a.hyb")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["bundle"]


def test_an_existing_target_is_never_written_over(tmp_path: Path) -> None:
    pack(write_tiny_bundle(tmp_path / "bundle"), tmp_path / "a.hyb")
    (tmp_path / "target").mkdir()
    with pytest.raises(InUse, match="exists already"):
        unpack(tmp_path / "a.hyb", tmp_path / "target")


def test_a_crash_while_unpacking_leaves_no_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack(write_tiny_bundle(tmp_path / "bundle"), tmp_path / "a.hyb")
    calls: list[int] = []

    def failing_fsync(handle: int) -> None:
        calls.append(handle)
        if len(calls) == 3:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", failing_fsync)
    with pytest.raises(Unavailable, match="No space left on device; make room"):
        unpack(tmp_path / "a.hyb", tmp_path / "target")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.hyb", "bundle"]


def test_a_failed_pack_keeps_the_old_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_tiny_bundle(tmp_path / "bundle")
    (tmp_path / "a.hyb").write_bytes(b"old")

    def failing_fsync(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", failing_fsync)
    with pytest.raises(Unavailable, match="No space left on device; make room"):
        pack(folder, tmp_path / "a.hyb")
    assert (tmp_path / "a.hyb").read_bytes() == b"old"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.hyb", "bundle"]
