"""What a cycle does in a real registry: with its own job's bundle, and with nobody else's."""

import asyncio
import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from cloud.learning.loop import commands as c
from cloud.learning.loop.job_bundles import JobBundles
from cloud.learning.loop.version_hand import VersionHand, of_revision
from cloud.learning.neighbours import registry_at
from cloud.learning.settings import LearningRegistry
from cloud.registry.artifacts.folder_blobs import FolderBlobs
from cloud.training.documents import Job
from shared.bundle.writer import pack
from shared.errors import Conflict, Refused, Unavailable
from tests.cloud.learning.loop.cycles import job
from tests.cloud.learning.servers import LoopRegistry
from tests.cloud.registry.pushing import MODEL, make_model, push
from tests.tiny_bundle import write_tiny_bundle

JOB = "finetune-1"


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopRegistry]:
    """With a model. Each test has a version of its own."""
    with LoopRegistry(tmp_path_factory.mktemp("home")) as running:
        make_model(running)
        yield running


class Queue:
    """Knows one job."""

    def __init__(self, sha256: str) -> None:
        self._sha256 = sha256

    async def job(self, job_id: str) -> Job:
        assert job_id == JOB
        return job().model_copy(update={"bundle_sha256": self._sha256})


def hand(registry: LoopRegistry, folder: Path, version: str) -> VersionHand:
    """Whose job made a bundle of that version."""
    write_tiny_bundle(folder / "made", name=MODEL, version=version)
    pack(folder / "made", folder / "made.hyb")
    content = (folder / "made.hyb").read_bytes()
    sha256, blobs = hashlib.sha256(content).hexdigest(), FolderBlobs(folder / "blobs")
    blobs.put(sha256, content)
    settings = LearningRegistry(urls=(registry.url,), api_key_file=registry.loop_key)
    return VersionHand(settings, JobBundles(Queue(sha256), blobs))


def evaluate(version: str) -> c.Evaluate:
    return c.Evaluate(model=MODEL, version=version, job=JOB)


def reject(version: str) -> c.Reject:
    return c.Reject(model=MODEL, version=version, job=JOB, why="gain is 0.001")


def state(registry: LoopRegistry, version: str) -> object:
    return registry.get(f"/v1/models/{MODEL}/versions/{version}").json["state"]


def evaluations(registry: LoopRegistry, version: str) -> int:
    path = f"/v1/models/{MODEL}/versions/{version}/evaluations"
    return len(registry.get(path).json["evaluations"])


def test_the_jobs_bundle_is_pushed_and_measured_once(
    registry: LoopRegistry, tmp_path: Path
) -> None:
    made = hand(registry, tmp_path, "1.0.1")
    first = asyncio.run(made.evaluated(evaluate("1.0.1")))
    assert asyncio.run(made.evaluated(evaluate("1.0.1"))).evaluation == first.evaluation
    assert evaluations(registry, "1.0.1") == 1


def test_what_somebody_else_pushed_by_its_number_is_not_measured(
    registry: LoopRegistry, tmp_path: Path
) -> None:
    push(registry, tmp_path / "foreign", "1.0.2", scale=11.0)
    before = evaluations(registry, "1.0.2")
    with pytest.raises(Conflict, match=r"1\.0\.2 is registered with another"):
        asyncio.run(hand(registry, tmp_path, "1.0.2").evaluated(evaluate("1.0.2")))
    assert evaluations(registry, "1.0.2") == before


def test_what_somebody_else_pushed_by_its_number_is_not_rejected(
    registry: LoopRegistry, tmp_path: Path
) -> None:
    push(registry, tmp_path / "foreign", "1.0.3", scale=11.0)
    done = asyncio.run(hand(registry, tmp_path, "1.0.3").rejected(reject("1.0.3")))
    assert "1.0.3 in the registry is not of job finetune-1" in done.words
    assert state(registry, "1.0.3") != "rejected"


def test_its_own_version_is_rejected_where_it_was_pushed(
    registry: LoopRegistry, tmp_path: Path
) -> None:
    made = hand(registry, tmp_path, "1.0.4")
    assert asyncio.run(made.rejected(reject("1.0.4"))).words == ""
    asyncio.run(made.evaluated(evaluate("1.0.4")))
    assert "is rejected" in asyncio.run(made.rejected(reject("1.0.4"))).words
    assert state(registry, "1.0.4") == "rejected"
    assert asyncio.run(made.rejected(reject("1.0.4"))).words == ""


def test_a_gate_by_rule_is_nobodys_approval(registry: LoopRegistry, tmp_path: Path) -> None:
    made = hand(registry, tmp_path, "1.0.5")
    asyncio.run(made.evaluated(evaluate("1.0.5")))
    seen = asyncio.run(made.version(c.WatchVersion(model=MODEL, version="1.0.5")))
    assert (seen.is_approved, seen.needs_nobody) == (False, True)


def test_a_word_that_comes_between_is_looked_at_again(
    registry: LoopRegistry, tmp_path: Path
) -> None:
    """And one that will always be refused stays so."""
    push(registry, tmp_path / "one", "1.0.7")
    settings = LearningRegistry(urls=(registry.url,), api_key_file=registry.loop_key)

    async def main() -> None:
        async with registry_at(settings) as asked:
            found = await asked.version(MODEL, "1.0.7")
            before = found.model_copy(update={"revision": found.revision - 1})
            with pytest.raises(Unavailable, match="has changed since"):
                async with of_revision(asked, before):
                    await asked.judge("reject", MODEL, "1.0.7", "no", before.revision)
            with pytest.raises(Refused):
                async with of_revision(asked, found):
                    await asked.judge("approve", MODEL, "1.0.7", "yes", found.revision)

    asyncio.run(main())
