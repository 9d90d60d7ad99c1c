"""What a cycle does in a real registry: with its own job's bundle, and with nobody else's."""

import asyncio
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar, Literal

import pytest
import zstandard

from cloud.learning import neighbours
from cloud.learning.loop import commands as c
from cloud.learning.loop import events as e
from cloud.learning.loop.hands import Hands
from cloud.learning.loop.job_bundles import JobBundles
from cloud.learning.loop.version_hand import VersionHand
from cloud.learning.settings import LearningRegistry
from cloud.registry.artifacts.folder_blobs import FolderBlobs
from cloud.registry.client.client import RegistryClient
from cloud.registry.documents import ModelVersion, State
from cloud.training.documents import Job
from shared.bundle.writer import pack
from shared.errors import Conflict, NotTrusted
from tests.cloud.learning.loop.cycles import job
from tests.cloud.learning.loop.world import World
from tests.cloud.learning.servers import LoopRegistry
from tests.cloud.registry.client.scripted_server import problem, response, scripted
from tests.cloud.registry.pushing import MODEL, candidate, make_model, push
from tests.tiny_bundle import write_tiny_bundle

JOB = "finetune-1"
RELEASED = ("better", "too-long", "released-1", "released-2", "lacking")
"""Models whose releases the key may name."""


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopRegistry]:
    """With a model. Each test has a version or a model of its own."""
    with LoopRegistry(tmp_path_factory.mktemp("home")) as running:
        make_model(running)
        running.trust.publish(running, *RELEASED)
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
    return VersionHand(asked(registry), made_of(folder, packed(folder, MODEL, version)))


def packed(folder: Path, model: str, version: str) -> bytes:
    write_tiny_bundle(folder / "made", name=model, version=version)
    pack(folder / "made", folder / "made.hyb")
    return (folder / "made.hyb").read_bytes()


def made_of(folder: Path, content: bytes) -> JobBundles:
    """Of a job that left these bytes."""
    sha256, blobs = hashlib.sha256(content).hexdigest(), FolderBlobs(folder / "blobs")
    blobs.put(sha256, content)
    return JobBundles(Queue(sha256), blobs)


def asked(registry: LoopRegistry) -> LearningRegistry:
    return LearningRegistry(urls=(registry.url,), api_key_file=registry.loop_key)


def releasing(registry: LoopRegistry, folder: Path, days: float = 100.0) -> VersionHand:
    """With a release key."""
    key = {"release_key": registry.trust.folder / "release.pem", "release_days": days}
    return VersionHand(asked(registry).model_copy(update=key), made_of(folder, b"none"))


def hands(hand: VersionHand) -> Hands:
    others = World().hands()
    return Hands(others.samples, others.jobs, hand, others.rollouts)


def done(hand: VersionHand, command: c.AnyCommand) -> e.Answer:
    """As a cycle gets to know it."""
    return asyncio.run(hands(hand).do(command))


def release(version: str, model: str = MODEL) -> c.Release:
    return c.Release(model=model, version=version, comment="better")


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


def test_the_loops_own_key_releases_a_version(registry: LoopRegistry, tmp_path: Path) -> None:
    make_model(registry, "better")
    candidate(registry, tmp_path / "made", "1.0.1", "better")
    seen = done(releasing(registry, tmp_path), release("1.0.1", "better"))
    assert isinstance(seen, e.VersionSeen)
    assert seen.state is State.RELEASED


@pytest.mark.parametrize(
    ("model", "days", "words"),
    [
        ("not-delegated", 100.0, "no key may name releases of not-delegated yet"),
        ("too-long", 5000.0, "sign it for 3661 days at most"),
    ],
)
def test_a_release_that_is_not_this_keys_to_sign_is_left_to_a_person(
    registry: LoopRegistry, tmp_path: Path, model: str, days: float, words: str
) -> None:
    make_model(registry, model)
    candidate(registry, tmp_path / "made", "1.0.1", model)
    answer = done(releasing(registry, tmp_path, days), release("1.0.1", model))
    assert isinstance(answer, e.Refused)
    assert words in answer.words


def test_a_jobs_bundle_that_does_not_check_out_is_refused_and_never_pushed(
    registry: LoopRegistry, tmp_path: Path
) -> None:
    content = zstandard.ZstdDecompressor().decompress(packed(tmp_path, MODEL, "1.0.8"))
    other = zstandard.ZstdCompressor().compress(content.replace(b"# Tiny", b"# Tony"))
    hand = VersionHand(asked(registry), made_of(tmp_path, other))
    answer = done(hand, evaluate("1.0.8"))
    assert isinstance(answer, e.Refused)
    assert registry.get(f"/v1/models/{MODEL}/versions/1.0.8").status == 404


class Overtaken(RegistryClient):
    """Others speak, one after the other, while its own word is under way."""

    others: ClassVar[list[Callable[[], object]]] = []

    async def judge(
        self, verb: Literal["approve", "reject"], model: str, version: str, comment: str,
        revision: int | None = None,
    ) -> ModelVersion:  # fmt: skip
        await self._meanwhile()
        return await super().judge(verb, model, version, comment, revision)

    async def launch(
        self, verb: Literal["release", "retire"], model: str, version: str, comment: str,
        metadata: object | None, revision: int | None = None,
    ) -> ModelVersion:  # fmt: skip
        await self._meanwhile()
        return await super().launch(verb, model, version, comment, metadata, revision)

    async def _meanwhile(self) -> None:
        if self.others:
            await asyncio.to_thread(self.others.pop())


@pytest.fixture
def overtaken(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Callable[[], object]]]:
    """By whom; each of them once."""
    monkeypatch.setattr(neighbours, "RegistryClient", Overtaken)
    yield Overtaken.others
    Overtaken.others.clear()


def said(registry: LoopRegistry, model: str, verb: str) -> None:
    path = f"/v1/models/{model}/versions/1.0.1/{verb}"
    reply = registry.call("POST", path, {"comment": "looked at it"}, "approver")
    assert reply.status == 200, reply.body


def test_an_approval_that_another_one_overtakes_is_looked_at_again(
    registry: LoopRegistry, tmp_path: Path, overtaken: list[Callable[[], object]]
) -> None:
    make_model(registry, "approved-twice", approval="person")
    candidate(registry, tmp_path / "made", "1.0.1", "approved-twice")
    overtaken.append(lambda: said(registry, "approved-twice", "approve"))
    made = releasing(registry, tmp_path)
    command = c.Approve(model="approved-twice", version="1.0.1", comment="better")
    assert isinstance(done(made, command), e.Away)
    seen = done(made, command)
    assert isinstance(seen, e.VersionSeen)
    assert seen.is_approved


def test_a_rejection_that_an_approval_overtakes_is_looked_at_again(
    registry: LoopRegistry, tmp_path: Path, overtaken: list[Callable[[], object]]
) -> None:
    make_model(registry, "doubted", approval="person")
    content = packed(tmp_path, "doubted", "1.0.1")
    candidate(registry, tmp_path / "pushed", "1.0.1", "doubted")
    overtaken.append(lambda: said(registry, "doubted", "approve"))
    made = VersionHand(asked(registry), made_of(tmp_path, content))
    command = c.Reject(model="doubted", version="1.0.1", job=JOB, why="gain is 0.001")
    assert isinstance(done(made, command), e.Away)
    assert done(made, command) == e.CleanedUp("doubted 1.0.1 is rejected in the registry")


@pytest.mark.parametrize("by", ["an approval", "another version's release"])
def test_a_release_that_is_overtaken_is_signed_anew(
    registry: LoopRegistry, tmp_path: Path, overtaken: list[Callable[[], object]], by: str
) -> None:
    model = {"an approval": "released-1", "another version's release": "released-2"}[by]
    make_model(registry, model)
    candidate(registry, tmp_path / "made", "1.0.1", model)
    other = candidate(registry, tmp_path / "other", "1.0.2", model)

    def release_other() -> None:
        metadata = registry.trust.release(registry, model, "1.0.2", other["manifest"])
        path = f"/v1/models/{model}/versions/1.0.2/release"
        reply = registry.call("POST", path, {"comment": "first", "metadata": metadata})
        assert reply.status == 200, reply.body

    overtaken.append(release_other if "release" in by else lambda: said(registry, model, "approve"))
    made = releasing(registry, tmp_path)
    assert isinstance(done(made, release("1.0.1", model)), e.Away)
    seen = done(made, release("1.0.1", model))
    assert isinstance(seen, e.VersionSeen)
    assert seen.state is State.RELEASED


def test_a_release_that_lacks_something_is_left_to_a_person_although_nobody_spoke(
    registry: LoopRegistry, tmp_path: Path
) -> None:
    make_model(registry, "lacking", approval="person")
    candidate(registry, tmp_path / "made", "1.0.1", "lacking")
    answer = done(releasing(registry, tmp_path), release("1.0.1", "lacking"))
    assert isinstance(answer, e.Refused)
    assert "cannot be released" in answer.words


@pytest.mark.parametrize(
    "command",
    [
        evaluate("1.0.1"), reject("1.0.1"), release("1.0.1"),
        c.WatchVersion(model=MODEL, version="1.0.1"),
        c.WatchEvaluation(model=MODEL, version="1.0.1", evaluation="0198"),
    ],
    ids=lambda command: command.kind,
)  # fmt: skip
@pytest.mark.parametrize(
    ("answered", "words"),
    [
        (problem(NotTrusted("no such key here")), "look at registry.api_key_file"),
        (response(404, b"<html>deploying</html>"), "HTTP status 404: <html>deploying"),
        (response(200, b"<html>deploying</html>"), "its answer is not JSON"),
    ],
    ids=["key", "page", "success"],
)
def test_a_key_that_is_not_known_and_a_proxys_page_are_waited_for(
    answered: bytes, words: str, command: c.AnyCommand, tmp_path: Path
) -> None:
    made = made_of(tmp_path, packed(tmp_path, MODEL, "1.0.1"))

    async def work() -> e.Answer:
        async with scripted(answered) as server:
            return await hands(VersionHand(LearningRegistry(urls=(server.url,)), made)).do(command)

    answer = asyncio.run(work())
    assert isinstance(answer, e.Away)
    assert words in answer.words
