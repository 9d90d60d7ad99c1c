"""A worker that is told to end: whatever is under way just then, no job is left behind and none holds it up."""

import asyncio
import threading
import time

import pytest

from cloud.training.documents import JobState
from cloud.training.worker.service import TrainWorkerService
from tests.cloud.training.worker.standing import FAKE, Standing
from tests.cloud.training.worker.test_overtaken import silent_server


@pytest.fixture
def at(tmp_path):
    standing = Standing(tmp_path / "at")
    yield standing
    standing.close()


class Clock:
    """Once it is armed whoever asks it, which each beat does in its transaction, waits."""

    def __init__(self):
        self.armed, self.asked, self.let = (threading.Event() for _ in range(3))

    def __call__(self):
        if self.armed.is_set():
            self.asked.set()
            assert self.let.wait(60)
        return time.time()


def test_a_job_that_is_claimed_meanwhile_goes_back_and_costs_no_attempt(at):
    clock = Clock()

    async def go():
        job = await at.submit("trains", attempts_max=1)
        service = TrainWorkerService(at.config, lambda *_: clock.armed.set(), clock, FAKE)
        running = asyncio.create_task(service.run())
        assert await asyncio.to_thread(clock.asked.wait, 60)
        service.stop()
        ended, _ = await asyncio.wait([running], timeout=0.3)
        assert not ended
        clock.let.set()
        async with asyncio.timeout(60):
            assert await running
        return await at.queue.job(job)

    found = asyncio.run(go())
    assert (found.state, found.attempts) == (JobState.QUEUED, 0)
    assert "its worker was told to end" in found.why


def test_what_follows_a_job_holds_it_up_no_longer_than_the_drain(tmp_path, monkeypatch):
    monkeypatch.setattr("cloud.training.worker.service._DRAIN_S", 0.2)

    async def go():
        async with silent_server() as (url, asked):
            at = Standing(tmp_path / "at", f'mlflow = "{url}"')
            at.config_path.write_text(
                at.config_path.read_text().replace("grace_s = 5.0", "grace_s = 0.2")
            )
            ready = asyncio.Event()
            service = TrainWorkerService(at.config, lambda *_: ready.set(), words=FAKE)
            running = asyncio.create_task(service.run())
            await ready.wait()
            job = await at.submit("trains")
            over = await at.over(job)
            await asked.wait()
            service.stop()
            async with asyncio.timeout(20):
                assert await running
            at.close()
        return over

    assert asyncio.run(go()).state is JobState.DONE
