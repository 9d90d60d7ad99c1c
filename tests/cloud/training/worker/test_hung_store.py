"""A store that neither answers nor refuses: no job waits for it to be told, none pays for the wait."""

import asyncio
import threading

import pytest

from cloud.registry.artifacts.folder_blobs import FolderBlobs
from cloud.training.documents import JobState
from tests.cloud.training.worker.standing import SlowBlobs, Standing, until
from tests.cloud.training.worker.test_last_words import begun, surroundings

HASH = "d" * 64


class SlowForCheckpoints(SlowBlobs):
    def put(self, sha256, content):
        if content[:1] == b"[":  # the fake child's are lists
            super().put(sha256, content)
        else:
            FolderBlobs.put(self, sha256, content)


class HungParts(FolderBlobs):
    """A store that gives a file when it is let."""

    def __init__(self, root):
        super().__init__(root)
        self.begun, self.let = threading.Event(), threading.Event()

    def parts(self, sha256):
        self.begun.set()
        assert self.let.wait(60)
        yield from super().parts(sha256)


@pytest.fixture
def at(tmp_path):
    standing = Standing(tmp_path / "at", "checkpoint_shared_s = 0.001")
    yield standing
    standing.close()


async def told_and_not_over(at, run, running, *states):
    """Its end is stored while the thread in its folder still waits for the store."""
    job = await at.until(run.job.id, *states)
    ended, _ = await asyncio.wait([running], timeout=0.3)
    assert not ended
    at.blobs.let.set()
    await running
    return job


@pytest.mark.parametrize(
    ("how", "state"), [("shutdown", JobState.QUEUED), ("cancel", JobState.CANCELLED)]
)
def test_while_a_checkpoint_is_copied(at, how, state, monkeypatch):
    monkeypatch.setattr("cloud.training.worker.sharing._LAST_S", 0.5 if how == "shutdown" else 60.0)
    at.blobs = SlowForCheckpoints(at.state / "artifacts")
    desk, around = surroundings(at)

    async def go():
        run, running = await begun(at, desk, around, "trains", steps=9_999, pace_s=0.05)
        assert await asyncio.to_thread(at.blobs.begun.wait, 60)
        if how == "cancel":
            await at.queue.cancel(run.job.id, "no need", "ann")
        run.stop(how)
        return await told_and_not_over(at, run, running, state)

    assert asyncio.run(go()).attempts == (0 if how == "shutdown" else 1)


def test_a_job_that_is_done_waits_for_no_copy_of_a_checkpoint(at):
    at.blobs = SlowForCheckpoints(at.state / "artifacts")
    desk, around = surroundings(at)

    async def go():
        run, running = await begun(at, desk, around, "trains", steps=3)
        return await told_and_not_over(at, run, running, "done")

    assert asyncio.run(go()).bundle == "tiny-edge@1.0.1"


def test_a_job_that_is_lost_is_over_when_no_thread_is_in_its_folder_any_more(at):
    at.blobs = SlowForCheckpoints(at.state / "artifacts")
    desk, around = surroundings(at)

    async def go():
        run, running = await begun(at, desk, around, "trains", steps=9_999, pace_s=0.05)
        assert await asyncio.to_thread(at.blobs.begun.wait, 60)
        run.stop("lost")

        async def is_told():
            return run.is_told

        await until(is_told, bool)  # and no beat renews its lease any more
        await desk.beat((), "nothing", claims=False)
        return await told_and_not_over(at, run, running, "queued")

    assert asyncio.run(go()).attempts == 0


def test_while_its_bundle_is_stored_which_is_no_work_of_its(tmp_path):
    at = Standing(tmp_path / "at")
    at.blobs = SlowBlobs(at.state / "artifacts")
    desk, around = surroundings(at)

    async def go():
        run, running = await begun(at, desk, around, "trains", steps=3)
        assert await asyncio.to_thread(at.blobs.begun.wait, 60)
        worked_s = [run.held().worked_s for _ in range(2)]
        run.stop("shutdown")
        return worked_s, await told_and_not_over(at, run, running, "queued")

    worked_s, job = asyncio.run(go())
    at.close()
    assert worked_s[0] == worked_s[1] == job.worked_s > 0
    assert job.attempts == 0


def test_while_it_is_prepared_which_is_no_work_of_its(at):
    at.blobs = HungParts(at.state / "artifacts")
    desk, around = surroundings(at)

    async def go():
        run, running = await begun(at, desk, around, "trains", data_set=HASH)
        assert await asyncio.to_thread(at.blobs.begun.wait, 60)
        run.stop("shutdown")
        return await told_and_not_over(at, run, running, "queued")

    job = asyncio.run(go())
    assert (job.attempts, job.worked_s) == (0, 0.0)
