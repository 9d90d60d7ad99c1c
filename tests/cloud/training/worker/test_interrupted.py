"""Workers and jobs that are killed, told to end, cancelled and stopped for others: real processes."""

import asyncio
import hashlib
import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from cloud.training.documents import JobState, Quota
from shared.errors import InUse
from tests.cloud.training.worker.standing import Standing, until

LEASE = "lease_s = 3.0"


@pytest.fixture
def at(tmp_path):
    standing = Standing(tmp_path / "at", training=LEASE)
    yield standing
    standing.close()


STEPS, PACE_S = 40, 0.03


def uninterrupted():
    """What the fake child's weights are after `STEPS`, by its own rule."""
    chain = "0"
    for _ in range(STEPS):
        chain = hashlib.sha256(chain.encode()).hexdigest()
    return chain.encode()


async def weights(at, job):
    found = await at.tracking.artifact(job, "weights.txt")
    return b"".join(at.blobs.parts(found.sha256))


async def stepped(at, job, step):
    """It has measured that many steps."""
    return await until(lambda: at.tracking.points(job, "loss"), lambda found: len(found) >= step)


def children_of(at):
    """Processes that carry the mark of a folder of this test."""
    mark, found = b"HYBRIDGE_TRAINING_FOLDER=" + str(at.folder).encode(), []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdecimal() and mark in (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return found


@pytest.mark.slow
def test_a_worker_killed_at_once_takes_its_jobs_along_and_another_goes_on(at):
    with at.process() as worker:
        job = asyncio.run(at.submit("trains", steps=STEPS, pace_s=PACE_S))
        asyncio.run(stepped(at, job, 5))
        worker.kill()
        worker.wait()

        async def no_children():
            return children_of(at)

        asyncio.run(until(no_children, lambda found: not found))
    with at.process():
        over = asyncio.run(at.over(job))
    assert (over.state, over.attempts) == (JobState.DONE, 2)
    logs = asyncio.run(at.tracking.logs(job))
    assert any("goes on from step" in line.text for line in logs)
    assert asyncio.run(weights(at, job)) == uninterrupted()


@pytest.mark.slow
def test_a_job_killed_at_once_goes_on_from_its_checkpoint(at):
    with at.process():
        job = asyncio.run(at.submit("trains", steps=STEPS, pace_s=PACE_S))
        asyncio.run(stepped(at, job, 5))
        for pid in children_of(at):
            os.kill(pid, signal.SIGKILL)
        over = asyncio.run(at.over(job))
    assert (over.state, over.attempts) == (JobState.DONE, 2)
    assert asyncio.run(weights(at, job)) == uninterrupted()


@pytest.mark.slow
def test_a_worker_told_to_end_gives_its_jobs_back_and_they_cost_no_attempt(at):
    with at.process() as worker:
        job = asyncio.run(at.submit("trains", steps=STEPS, pace_s=PACE_S))
        asyncio.run(stepped(at, job, 5))
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(30) == 0
    found = asyncio.run(at.queue.job(job))
    assert (found.state, found.attempts) == (JobState.QUEUED, 0)
    assert "its worker was told to end" in found.why
    assert list((at.config.work_dir / job / "checkpoints").iterdir())
    with at.process():  # of the same name, and at once: the first one said that it ends
        over = asyncio.run(at.over(job))
    assert (over.state, over.attempts) == (JobState.DONE, 1)
    assert asyncio.run(weights(at, job)) == uninterrupted()


@pytest.mark.slow
def test_another_machine_goes_on_from_the_checkpoint_that_was_shared(at, tmp_path):
    with at.process() as worker:
        job = asyncio.run(at.submit("trains", steps=STEPS, pace_s=PACE_S))
        asyncio.run(stepped(at, job, 5))
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(30) == 0
    elsewhere = tmp_path / "elsewhere"
    at.config_path.write_text(
        at.config_path.read_text().replace('name = "w"', f'name = "x"\nwork_dir = "{elsewhere}"')
    )

    async def go_on():
        async with at.working():
            over = await at.over(job)
        await at.queue.sweep()
        return over, await at.tracking.logs(job), await weights(at, job)

    over, logs, found = asyncio.run(go_on())
    assert (over.state, over.worker) == (JobState.DONE, "x")
    assert any("goes on from step" in line.text for line in logs)
    assert found == uninterrupted()
    assert at.database.read(
        lambda c: c.exec_driver_sql("SELECT count(checkpoint) FROM training_jobs").scalar()
    ) == 0  # fmt: skip


def test_a_job_is_cancelled_while_it_works_and_where_it_is_deaf_it_is_killed(at):
    at.config_path.write_text(at.config_path.read_text().replace("grace_s = 5.0", "grace_s = 1.0"))

    async def both():
        async with at.working():
            jobs = [await at.submit("trains", steps=9_999, pace_s=0.05), await at.submit("deaf")]
            await stepped(at, jobs[0], 2)
            await until(lambda: at.tracking.logs(jobs[1]), bool)
            asked = [await at.queue.cancel(job, "no need", "ann") for job in jobs]
            over = [await at.over(job) for job in jobs]
        return asked, over

    asked, over = asyncio.run(both())
    assert {one.state for one in asked} == {JobState.STOPPING}
    for one in over:
        assert (one.state, one.why) == (JobState.CANCELLED, "cancelled by ann: no need")
    assert children_of(at) == []


async def importing(at, job):
    """Its process is there and has not said a word; its number."""

    async def look():
        lines = [line.text for line in await at.tracking.logs(job)]
        return children_of(at) if "importing" in lines else []

    (pid,) = await until(look, bool)
    return pid


def test_a_process_that_is_stopped_while_it_imports_goes_back_or_ends_as_it_was_asked(at):
    async def go():
        async with at.working():
            cancelled = await at.submit("imports")
            await importing(at, cancelled)
            await at.queue.cancel(cancelled, "no need", "ann")
            over = await at.over(cancelled)
            job = await at.submit("imports")
            await importing(at, job)
        return over, await at.queue.job(job)

    over, found = asyncio.run(go())
    assert (over.state, over.why) == (JobState.CANCELLED, "cancelled by ann: no need")
    assert (found.state, found.attempts) == (JobState.QUEUED, 0)
    assert [one.name for one in at.config.work_dir.iterdir() if one.is_dir()] == [found.id]
    assert "its worker was told to end" in found.why


def test_a_process_that_is_told_to_end_beside_its_worker_costs_no_attempt(at):
    """As systemd does it: SIGTERM to all of a unit, whatever the worker waits for just then."""

    async def go():
        async with at.working() as service:
            job = await at.submit("imports")
            pid = await importing(at, job)
            service.stop()
            os.kill(pid, signal.SIGTERM)
            assert (
                service._runs.by_job[job].asked.how == "shutdown"
            )  # and not only after the next beat
        return await at.queue.job(job)

    found = asyncio.run(go())
    assert (found.state, found.attempts) == (JobState.QUEUED, 0)


def test_a_process_that_somebody_else_tells_to_end_costs_an_attempt(at):
    async def go():
        async with at.working():
            job = await at.submit("imports", attempts_max=1)
            os.kill(await importing(at, job), signal.SIGTERM)
            return await at.over(job)

    over = asyncio.run(go())
    assert (over.state, over.attempts) == (JobState.FAILED, 1)
    assert "SIGTERM ended it" in over.why


def test_a_more_important_job_takes_the_place_and_the_other_goes_on_afterwards(at):
    async def both():
        await at.queue.set_quota(Quota(team="default", cpus_max=16))
        async with at.working():
            low = await at.submit("trains", steps=STEPS, pace_s=PACE_S, cpus=16, priority=1)
            await stepped(at, low, 5)
            high = await at.submit("trains", steps=3, cpus=16, priority=9)
            return await at.over(high), await at.over(low), await weights(at, low)

    high, low, found = asyncio.run(both())
    assert (high.state, low.state) == (JobState.DONE, JobState.DONE)
    assert (low.preemptions, low.attempts) == (1, 1)
    assert high.ended_at < low.ended_at
    assert found == uninterrupted()


def test_a_second_worker_in_one_folder_or_of_one_name_does_not_begin(at, tmp_path):
    async def second(text):
        async with at.working():
            at.config_path.write_text(text)
            async with at.working():
                pass

    text = at.config_path.read_text()
    with pytest.raises(InUse, match="uses this folder"):
        asyncio.run(second(text))
    at.config_path.write_text(text)
    with pytest.raises(InUse, match="another train-worker of this name"):
        asyncio.run(second(f'{text}\nwork_dir = "{tmp_path / "other"}"\n'))


def test_a_job_whose_folder_grows_too_big_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr("cloud.training.worker.process._LOOK_S", 0.1)
    at = Standing(tmp_path / "at", "folder_bytes_max = 3000000")

    async def one():
        job = await at.submit("fills", attempts_max=1)
        async with at.working():
            return await at.over(job)

    over = asyncio.run(one())
    at.close()
    assert over.state is JobState.FAILED
