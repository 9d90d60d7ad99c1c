"""Jobs that are stopped before their process begins, and after it has ended."""

import asyncio
import threading
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from cloud.registry.artifacts.folder_blobs import FolderBlobs
from cloud.training.documents import JobState
from cloud.training.worker.settings import WorkerRegistry
from tests.cloud.training.worker.standing import SlowBlobs, Standing
from tests.cloud.training.worker.test_last_words import begun, surroundings

HASH = "d" * 64


class Trickle(FolderBlobs):
    """A store over a thin line: parts come and come."""

    def __init__(self, root):
        super().__init__(root)
        self.begun, self.never, self.is_over = threading.Event(), threading.Event(), False

    def parts(self, _):
        try:
            while not self.never.wait(0.01):
                self.begun.set()
                yield b"x"
        finally:
            self.is_over = True


@pytest.fixture
def at(tmp_path):
    standing = Standing(tmp_path / "at")
    yield standing
    standing.close()


@pytest.mark.parametrize("how", ["shutdown", "cancel"])
def test_while_it_is_prepared(at, how):
    at.blobs = blobs = Trickle(at.state / "artifacts")
    desk, around = surroundings(at)

    async def go():
        run, running = await begun(at, desk, around, "trains", data_set=HASH)
        assert await asyncio.to_thread(blobs.begun.wait, 60)
        if how == "cancel":
            await at.queue.cancel(run.job.id, "no need", "ann")
        run.stop(how)
        async with asyncio.timeout(60):
            await running
        assert blobs.is_over  # no thread writes into the folder any more
        return await at.queue.job(run.job.id)

    job = asyncio.run(go())
    if how == "cancel":
        assert (job.state, job.why) == (JobState.CANCELLED, "cancelled by ann: no need")
    else:
        assert (job.state, job.attempts) == (JobState.QUEUED, 0)
        assert "its worker was told to end" in job.why


@asynccontextmanager
async def silent_server():
    """It takes connections and answers nothing: its URL, and what says that it was asked."""
    asked = asyncio.Event()

    async def silent(reader, writer):
        asked.set()
        await reader.read()
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked


@asynccontextmanager
async def silent_registry(at):
    async with silent_server() as (url, asked):
        yield WorkerRegistry(urls=(url,), root=at.folder / "1.root.json"), asked


@pytest.mark.parametrize("how", ["shutdown", "cancel"])
def test_while_it_is_pushed_to_a_registry_that_does_not_answer(at, how):
    desk, around = surroundings(at)

    async def go():
        async with silent_registry(at) as (registry, asked):
            settings = around.settings.model_copy(update={"registry": registry})
            run, running = await begun(
                at, desk, replace(around, settings=settings), "trains", steps=2, push=True
            )
            await asked.wait()
            if how == "cancel":
                await at.queue.cancel(run.job.id, "no need", "ann")
            run.stop(how)
            async with asyncio.timeout(60):
                await running
        return await at.queue.job(run.job.id)

    job = asyncio.run(go())
    if how == "cancel":
        assert (job.state, job.why) == (JobState.CANCELLED, "cancelled by ann: no need")
    else:
        assert (job.state, job.attempts) == (JobState.QUEUED, 0)


def test_a_bundle_that_was_made_in_the_grace_after_its_time_is_pushed(at):
    at.blobs = blobs = SlowBlobs(at.state / "artifacts")
    desk, around = surroundings(at)

    async def go():
        async with silent_registry(at) as (registry, asked):
            settings = around.settings.model_copy(update={"registry": registry})
            run, running = await begun(
                at, desk, replace(around, settings=settings), "trains", steps=2, push=True
            )
            assert await asyncio.to_thread(blobs.begun.wait, 60)
            run.stop("time")
            blobs.let.set()
            await asked.wait()
            ended, _ = await asyncio.wait([running], timeout=0.3)
            assert not ended
            run.stop("lost")
            async with asyncio.timeout(60):
                await running

    asyncio.run(go())


def test_a_worker_that_is_told_to_end_gives_back_a_job_that_it_prepares(at, monkeypatch):
    blobs = Trickle(at.state / "artifacts")
    monkeypatch.setattr("cloud.training.worker.service.open_blobs", lambda *_: blobs)

    async def go():
        async with at.working():
            job = await at.submit("trains", data_set=HASH)
            assert await asyncio.to_thread(blobs.begun.wait, 60)
        return await at.queue.job(job)

    found = asyncio.run(go())
    assert (found.state, found.attempts) == (JobState.QUEUED, 0)
