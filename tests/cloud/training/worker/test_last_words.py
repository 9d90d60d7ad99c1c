"""What a job said last is stored, however its end and a beat of its worker meet."""

import asyncio
import os
import time

import pytest

from cloud.training.documents import JobState
from cloud.training.worker.bundles import BundleShelf
from cloud.training.worker.desk import Desk
from cloud.training.worker.job import JobRun, Surroundings
from cloud.training.worker.places import Places
from cloud.training.worker.preparing import Preparing
from tests.cloud.training.worker.standing import FAKE, LOOK_S, Standing, until


def surroundings(at):
    config = at.config
    config.work_dir.mkdir(parents=True)
    desk = Desk(at.database, config.training, "w", "token", 16, time.time)
    shelf = BundleShelf(config.worker.bundles, None, config.state_dir)
    preparing = Preparing(config.worker, at.blobs, shelf, config.work_dir)
    around = Surroundings(
        config.worker, desk, at.blobs, preparing, Places(config), time.time, "1", FAKE
    )
    return desk, around


async def begun(at, desk, around, does, **more):
    """A job's run, and its task."""
    await desk.begin("nothing")
    await at.submit(does, **more)
    (claimed,) = (await desk.beat((), "nothing", claims=True)).claimed
    run = JobRun(claimed, around)
    running = asyncio.create_task(run.run())
    return run, running


async def spoken(run):
    """Its process has; from then on it is deaf, where it is one of those."""

    async def look():
        return run.heard.notes.run

    await until(look, bool)


def test_what_a_beat_took_is_stored_before_the_jobs_end_is(tmp_path):
    at = Standing(tmp_path / "at")
    desk, around = surroundings(at)

    async def go():
        run, running = await begun(at, desk, around, "trains", steps=3)
        async with desk.turn:  # a beat, from its first word
            while "accuracy" not in (held := run.held()).notes.figures:
                run.put_back(held)
                await asyncio.sleep(LOOK_S)
            ended, _ = await asyncio.wait([running], timeout=0.5)
            assert not ended
            assert not run.is_told
            assert not (await desk.beat([held], "nothing", claims=False)).lost
        await running
        assert run.is_told
        job = run.job.id
        return await at.queue.job(job), await at.tracking.run(job), await at.tracking.points(job)

    job, run, points = asyncio.run(go())
    at.close()
    assert job.state is JobState.DONE
    assert run.figures == {"loss": 1 / 3, "accuracy": 0.9}
    assert [one.step for one in points] == [1, 2, 3]


def test_a_job_that_is_another_workers_now_is_ended_at_once(tmp_path):
    at = Standing(tmp_path / "at", "silence_s = 600.0")
    at.config_path.write_text(at.config_path.read_text().replace("grace_s = 5.0", "grace_s = 40.0"))
    desk, around = surroundings(at)

    async def go():
        run, running = await begun(at, desk, around, "deaf")
        await spoken(run)
        run.stop("lost")
        async with asyncio.timeout(20):
            await running
        return await at.queue.job(run.job.id)

    job = asyncio.run(go())
    at.close()
    assert job.state is JobState.RUNNING  # and nothing was said of it


@pytest.mark.parametrize("does", ["deaf", "lingers"])
def test_a_job_that_is_lost_in_its_grace_or_after_its_last_word_is_ended_at_once(tmp_path, does):
    at = Standing(tmp_path / "at", "silence_s = 600.0")
    at.config_path.write_text(at.config_path.read_text().replace("grace_s = 5.0", "grace_s = 40.0"))
    desk, around = surroundings(at)

    async def go():
        run, running = await begun(at, desk, around, does)
        await spoken(run)
        if does == "deaf":
            run.stop("preempt")
        ended, _ = await asyncio.wait([running], timeout=0.5)
        assert not ended
        run.stop("lost")
        async with asyncio.timeout(20):
            await running
        return await at.queue.job(run.job.id)

    job = asyncio.run(go())
    at.close()
    assert job.state is JobState.RUNNING


def test_a_deaf_job_is_killed_after_the_grace_and_not_after_two(tmp_path):
    at = Standing(tmp_path / "at")
    desk, around = surroundings(at)

    async def go():
        run, running = await begun(at, desk, around, "deaf")
        await spoken(run)
        began = time.monotonic()
        run.stop("shutdown")
        await running
        return time.monotonic() - began, await at.queue.job(run.job.id)

    took_s, job = asyncio.run(go())
    at.close()
    assert at.config.worker.grace_s <= took_s < 2 * at.config.worker.grace_s
    assert (job.state, job.attempts) == (JobState.QUEUED, 0)


def test_a_job_whose_last_words_no_database_takes_is_failed_without_them(tmp_path):
    at = Standing(tmp_path / "at")
    desk, around = surroundings(at)

    async def go():
        run, running = await begun(at, desk, around, "trains", steps=3)
        run.heard.notes.said(os.fsdecode(b"step\xff"), 1.0)
        await running
        job = run.job.id
        return run, await at.queue.job(job), await at.tracking.logs(job)

    run, job, logs = asyncio.run(go())
    at.close()
    assert run.is_told
    assert run.is_over
    assert (job.state, job.bundle) == (JobState.FAILED, None)
    assert job.why.startswith("its end cannot be stored: the learning database: ")
    assert logs == []
