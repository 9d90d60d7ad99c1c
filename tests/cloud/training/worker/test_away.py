"""A disk without room, a store that is away: jobs wait for them, and none is failed for it."""

import asyncio

import pytest

from cloud.training.documents import JobState
from cloud.training.worker.aways import Aways
from cloud.training.worker.preparing import Preparing
from tests.cloud.training.worker.standing import Standing, until


@pytest.fixture
def at(tmp_path):
    standing = Standing(tmp_path / "at")
    yield standing
    standing.close()


def test_a_store_that_is_away_at_the_end_costs_no_attempt_and_the_bundle_comes_when_it_is_back(at):
    """The folder of artifacts is a plain file for a while: nothing can be written into it."""

    async def go():
        async with at.working():
            job = await at.submit("trains", steps=30, pace_s=0.05, attempts_max=1)
            await at.until(job, "running")
            place = at.state / "artifacts"
            place.rename(at.state / "aside")
            place.write_text("no folder")
            waits = await until(
                lambda: at.queue.job(job), lambda found: "tried again in 0.1 s" in found.why
            )
            place.unlink()
            (at.state / "aside").rename(place)
            return waits, await at.over(job), await at.tracking.logs(job)

    waits, over, logs = asyncio.run(go())
    assert waits.attempts == 0
    assert (over.state, over.attempts, over.bundle) == (JobState.DONE, 1, "tiny-edge@1.0.1")
    assert any("goes on from step 30" in line.text for line in logs)


def test_a_disk_without_room_leaves_jobs_in_the_queue_and_the_worker_says_why(tmp_path):
    at = Standing(tmp_path / "at", "free_bytes_min = 1_000_000_000_000_000\n")

    async def go():
        job = await at.submit("trains", attempts_max=1)
        async with at.working():
            (worker,) = await until(
                at.queue.workers, lambda found: "takes no jobs" in found[0].kept_apart_by
            )
            found = await at.queue.job(job)
        return worker, found

    worker, found = asyncio.run(go())
    at.close()
    assert "MiB are free, under the" in worker.kept_apart_by
    assert "(worker.free_bytes_min); make room" in worker.kept_apart_by
    assert worker.cpus == 0
    assert (found.state, found.attempts) == (JobState.QUEUED, 0)
    assert found.why == "no worker takes jobs now; `hybridge train workers` says why"


def test_a_disk_that_is_gone_lacks_room(at, tmp_path):
    lacking = Preparing(at.config.worker, at.blobs, None, tmp_path / "gone").lacks_room()
    assert "No such file or directory; is its disk there?" in lacking
    assert Preparing(at.config.worker, at.blobs, None, tmp_path).lacks_room() == ""


def test_how_often_is_counted_for_each_job_until_it_is_over():
    aways = Aways()
    assert [aways.again("a"), aways.again("a"), aways.again("b")] == [1, 2, 1]
    aways.over("a")
    assert aways.again("a") == 1
    for number in range(2000):
        aways.again(f"job-{number}")
    assert len(aways.times) == 1000
