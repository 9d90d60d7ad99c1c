"""What only a directory has: the order of syncs, files for `sendfile`, what else lies there."""

import asyncio
import hashlib
import os
from pathlib import Path

import pytest

from cloud.registry.artifacts.artifacts import Artifacts
from cloud.registry.artifacts.blobs import key
from cloud.registry.artifacts.folder_blobs import FolderBlobs
from cloud.registry.artifacts.settings import ArtifactSettings
from shared.errors import Unavailable, Unknown

CONTENT = b"content" * 1000
SHA = hashlib.sha256(CONTENT).hexdigest()


def test_synced_then_renamed_then_the_directory_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def synced(handle: int) -> None:
        done.append("sync " + Path(f"/proc/self/fd/{handle}").readlink().name[:4])
        fsync(handle)

    def replaced(self: Path, target: Path) -> Path:
        done.append("rename")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    FolderBlobs(tmp_path).put(SHA, CONTENT)
    at = done.index("rename")
    assert f"sync {SHA[:4]}" in done[:at]
    assert done[at + 1 :] == [f"sync {SHA[:2]}"]
    assert "sync sha2" in done[:at]  # the new directory `sha256/ab` is durable as well
    done.clear()

    async def pieces():
        yield CONTENT + b"!"

    longer = hashlib.sha256(CONTENT + b"!").hexdigest()
    artifacts = Artifacts(ArtifactSettings(), tmp_path)
    asyncio.run(artifacts.uploads.append(longer, len(CONTENT) + 1, 0, pieces()))
    at = done.index("rename")
    assert f"sync {longer[:4]}" in done[:at]
    assert done[at + 1] == f"sync {longer[:2]}"


def test_a_reader_has_its_file(tmp_path: Path) -> None:
    async def go() -> None:
        artifacts = Artifacts(ArtifactSettings(), tmp_path)
        reader = await artifacts.open(await artifacts.put_bytes(CONTENT))
        assert reader.path == tmp_path / "artifacts" / key(SHA)
        assert reader.path.read_bytes() == CONTENT

    asyncio.run(go())


def test_another_directory(tmp_path: Path) -> None:
    place = tmp_path / "big disk"
    artifacts = Artifacts(ArtifactSettings(url=place.as_uri()), tmp_path / "state")
    assert asyncio.run(artifacts.put_bytes(CONTENT)) == SHA
    assert (place / key(SHA)).read_bytes() == CONTENT


def test_what_is_not_its_own_is_neither_listed_nor_removed(tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path)
    blobs.put(SHA, CONTENT)
    for name in (
        "sha256/README",
        "sha256/ab/notes",
        f"sha256/zz/{SHA}",
        f"sha256/{SHA[:2]}/{SHA}.bak",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "sha256/ab/folder").mkdir()
    assert [stored.sha256 for stored in blobs.walk()] == [SHA]


def test_a_link_in_an_artifacts_place_is_not_followed(tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path)
    (tmp_path / "secret").write_bytes(b"secret")
    place = tmp_path / key(SHA)
    place.parent.mkdir(parents=True)
    place.symlink_to(tmp_path / "secret")
    with pytest.raises(Unavailable, match="symbolic links"):
        list(blobs.parts(SHA))


def test_reading_what_is_gone(tmp_path: Path) -> None:
    with pytest.raises(Unknown, match="there is no artifact"):
        list(FolderBlobs(tmp_path).parts(SHA))


def test_few_corrupt_ones_are_kept(tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path)
    for number in range(5):
        name = f"{number}" * 64
        blobs.put(name, b"x")
        blobs.set_aside(name, 2)
        os.utime(tmp_path / "corrupt" / name, (number, number))
    kept = {path.name[0] for path in (tmp_path / "corrupt").iterdir()}
    assert kept == {"3", "4"}
    blobs.set_aside("5" * 64, 2)  # gone meanwhile


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "artifacts").write_text("a file")
    artifacts = Artifacts(ArtifactSettings(), tmp_path)
    for work in (artifacts.check(), artifacts.put_bytes(b"x"), artifacts.has([SHA])):
        with pytest.raises(Unavailable, match="artifacts: "):
            asyncio.run(work)
