"""A job's bundle out of the store, as it was said to be."""

import asyncio
import hashlib
from pathlib import Path

import pytest

from cloud.learning.loop.job_bundles import JobBundles
from cloud.registry.artifacts.folder_blobs import FolderBlobs
from cloud.training.documents import Job
from shared.errors import Conflict, NotTrusted, Unknown
from tests.cloud.learning.loop.cycles import job

CONTENT = b"a bundle"
SHA = hashlib.sha256(CONTENT).hexdigest()


class Queue:
    """Knows one job."""

    def __init__(self, sha256: str | None) -> None:
        self._sha256 = sha256

    async def job(self, job_id: str) -> Job:
        assert job_id == "finetune-1"
        return job().model_copy(update={"bundle_sha256": self._sha256})


def brought(folder: Path, sha256: str | None) -> bytes:
    async def main() -> bytes:
        bundles = JobBundles(Queue(sha256), FolderBlobs(folder))
        async with bundles.archive("finetune-1") as path:
            return path.read_bytes()

    return asyncio.run(main())


def test_it_is_brought_and_checked(tmp_path: Path) -> None:
    FolderBlobs(tmp_path).put(SHA, CONTENT)
    assert brought(tmp_path, SHA) == CONTENT


def test_a_job_that_left_none_is_said(tmp_path: Path) -> None:
    with pytest.raises(Conflict, match="left no bundle"):
        brought(tmp_path, None)


def test_one_that_is_gone_is_said(tmp_path: Path) -> None:
    with pytest.raises(Unknown):
        brought(tmp_path, SHA)


def test_flipped_bits_are_not_pushed(tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path)
    blobs.put(SHA, CONTENT)
    path = blobs.path(SHA)
    assert path is not None
    path.chmod(0o600)
    path.write_bytes(b"a bundlE")
    with pytest.raises(NotTrusted, match="another file"):
        brought(tmp_path, SHA)
