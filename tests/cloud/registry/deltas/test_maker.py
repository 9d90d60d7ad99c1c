"""A delta is an artifact of its own, where it pays off."""

import asyncio
import hashlib
from pathlib import Path

import pytest

from cloud.registry.artifacts.artifacts import Artifacts
from cloud.registry.artifacts.settings import ArtifactSettings
from cloud.registry.deltas.maker import DeltaMaker
from cloud.registry.deltas.settings import DeltaSettings
from cloud.registry.documents import Delta
from shared.delta.decoder import apply
from shared.errors import NotTrusted, Unknown
from tests.cloud.registry.deltas.models import int8, model

OLD = model({"a": int8(1, 20_000), "head": int8(2, 200)})
NEW = model({"a": int8(1, 20_000), "head": int8(3, 200)})


def make(
    folder: Path, old: bytes, new: bytes, settings: DeltaSettings | None = None
) -> tuple[Delta | None, bytes]:
    async def go() -> tuple[Delta | None, bytes]:
        artifacts = Artifacts(ArtifactSettings(), folder)
        hashes = [await artifacts.put_bytes(content) for content in (old, new)]
        made = await DeltaMaker(artifacts, settings or DeltaSettings()).make(hashes[0], hashes[1])
        return made, b"" if made is None else await artifacts.read(made.sha256, 1 << 20)

    return asyncio.run(go())


def test_a_delta_and_where_it_lies(tmp_path: Path) -> None:
    made, content = make(tmp_path, OLD, NEW)
    assert made is not None
    assert made.to_sha256 == hashlib.sha256(NEW).hexdigest()
    assert made.bytes == len(content) < 1000
    assert apply(OLD, content, bytes_max=len(NEW), sha256=made.to_sha256) == NEW


def test_none_where_the_whole_file_is_nearly_as_short(tmp_path: Path) -> None:
    assert make(tmp_path, OLD, model({"a": int8(5, 20_000)}))[0] is None
    assert len(list(tmp_path.rglob("sha256/*/*"))) == 2


def test_none_for_files_over_the_bound(tmp_path: Path) -> None:
    assert make(tmp_path, OLD, NEW, DeltaSettings(bytes_max=len(OLD) - 1))[0] is None


def test_of_files_that_are_not_here(tmp_path: Path) -> None:
    maker = DeltaMaker(Artifacts(ArtifactSettings(), tmp_path), DeltaSettings())
    with pytest.raises(Unknown, match="no artifact"):
        asyncio.run(maker.make("a" * 64, "b" * 64))


def test_of_an_old_file_with_a_flipped_bit(tmp_path: Path) -> None:
    async def go() -> None:
        artifacts = Artifacts(ArtifactSettings(), tmp_path)
        old, new = await artifacts.put_bytes(OLD), await artifacts.put_bytes(NEW)
        path = (await artifacts.open(old)).path
        assert path is not None
        path.write_bytes(b"?" + OLD[1:])
        await DeltaMaker(artifacts, DeltaSettings()).make(old, new)

    with pytest.raises(NotTrusted, match="corrupt, and was set aside"):
        asyncio.run(go())
