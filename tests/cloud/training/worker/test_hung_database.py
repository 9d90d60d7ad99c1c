"""A database that neither answers nor refuses: another process has its write lock and keeps it, or it is
stopped.
"""

import asyncio
import os
import signal
import sqlite3
from contextlib import contextmanager
from pathlib import Path

import pytest

from cloud.training.documents import JobState
from cloud.training.store.clock import ClockOff
from cloud.training.worker.beating import Beating
from cloud.training.worker.desk import Answer, Held
from cloud.training.worker.notes import Notes
from cloud.training.worker.service import TrainWorkerService
from shared.errors import Unavailable
from simulations import virtual_time
from simulations.postgres import running_postgres
from tests.cloud.training.worker.standing import FAKE, LOOK_S, Standing, until
from tests.cloud.training.worker.test_interrupted import children_of, stepped
from tests.cloud.training.worker.test_last_words import begun, surroundings


@pytest.fixture
def at(tmp_path, monkeypatch):
    monkeypatch.setattr("cloud.store.one_writer._WAIT_S", 600)  # of itself it gives up after that
    standing = Standing(tmp_path / "at", training="lease_s = 2.0")
    yield standing
    standing.close()


def test_jobs_end_with_their_leases_and_the_worker_when_it_is_told_to(at):
    async def children():
        return children_of(at)

    async def go():
        ready = asyncio.Event()
        service = TrainWorkerService(at.config, lambda *_: ready.set(), words=FAKE)
        running = asyncio.create_task(service.run())
        await ready.wait()
        job = await at.submit("trains", steps=9_999, pace_s=0.05)
        await stepped(at, job, 2)
        lock = sqlite3.connect(at.state / "learning.db", isolation_level=None)
        lock.execute("BEGIN IMMEDIATE")
        try:
            await until(children, lambda found: not found)
            service.stop()
            async with asyncio.timeout(60):
                assert await running
        finally:
            lock.close()
        return await at.queue.job(job)

    assert asyncio.run(go()).state is JobState.RUNNING  # and nothing was said of it


def test_an_outage_that_is_longer_than_a_lease_costs_a_job_no_attempt(at):
    async def children():
        return children_of(at)

    async def go():
        async with at.working():
            job = await at.submit("trains", steps=60, pace_s=0.05, attempts_max=1)
            await stepped(at, job, 2)
            lock = sqlite3.connect(at.state / "learning.db", isolation_level=None)
            lock.execute("BEGIN IMMEDIATE")
            await until(children, lambda found: not found)
            lock.close()
            return await at.over(job), await at.tracking.logs(job)

    over, logs = asyncio.run(go())
    assert (over.state, over.attempts, over.why) == (JobState.DONE, 1, "")
    assert any("goes on from step" in line.text for line in logs)


def test_a_job_whose_worker_never_heard_that_it_has_it_costs_no_attempt(at):
    desk, _ = surroundings(at)

    async def unheard():
        await at.submit("trains", attempts_max=1)
        await desk.begin("nothing")
        (claimed,) = (await desk.beat((), "nothing", claims=True)).claimed
        held = Held(claimed, Notes(), 0.0, 0.0)
        assert not (await desk.beat([held], "nothing", claims=False)).lost
        yield await at.queue.job(claimed.id)
        await desk.beat((), "nothing", claims=False)
        yield await at.queue.job(claimed.id)
        await desk.beat((), "nothing", claims=True)
        await desk.gone()
        yield await at.queue.job(claimed.id)

    async def go():
        return [(job.state, job.attempts) async for job in unheard()]

    back = (JobState.QUEUED, 0)
    assert asyncio.run(go()) == [(JobState.RUNNING, 1), back, back]


@contextmanager
def hung(server):
    """PostgreSQL's processes, stopped."""
    first = server._server.pid
    pids = [first, *map(int, Path(f"/proc/{first}/task/{first}/children").read_text().split())]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@pytest.mark.slow
def test_a_worker_that_is_told_to_end_waits_for_no_thread_of_its(tmp_path):
    with running_postgres() as server:
        at = Standing(tmp_path / "at", training=f'url = "{server.new_database()}"\nlease_s = 2.0')
        with at.process() as worker:

            async def at_work():
                return await at.queue.workers()

            (found,) = asyncio.run(until(at_work, bool))
            asyncio.run(until(at_work, lambda now: now[0].seen_at > found.seen_at))
            with hung(server):
                worker.send_signal(signal.SIGTERM)
                assert worker.wait(30) == 0
        at.close()


def test_the_end_of_a_job_is_told_no_longer_than_it_is_ours(at):
    desk, around = surroundings(at)

    async def go():
        run, running = await begun(at, desk, around, "trains", steps=3)
        async with desk.turn:  # a beat that has no answer
            while "accuracy" not in (held := run.held()).notes.figures:
                run.put_back(held)
                await asyncio.sleep(LOOK_S)
            ended, _ = await asyncio.wait([running], timeout=0.5)
            assert not ended  # it waits for its turn
            run.stop("lost")
            async with asyncio.timeout(60):
                await running
        return await at.queue.job(run.job.id)

    assert asyncio.run(go()).state is JobState.RUNNING


class Database:
    """Answers each beat when it is told to."""

    def __init__(self):
        self.asked, self.answers = 0, asyncio.Queue()

    async def beat(self):
        self.asked += 1
        answer = await self.answers.get()
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_a_beat_without_an_answer_is_the_only_one_and_its_answer_counts(caplog):
    async def go():
        loop, kick, never = asyncio.get_running_loop(), asyncio.Event(), float("inf")
        database = Database()
        beating = Beating(database.beat, 30.0)
        asking = asyncio.create_task(beating.answer(kick, 10.0))
        await asyncio.sleep(0)
        assert beating.may_bring_jobs
        assert await asking is None
        assert await beating.answer(kick, never) is None
        assert (loop.time(), beating.is_lease_over, database.asked) == (30.0, True, 1)
        assert not beating.may_bring_jobs
        kick.set()
        assert await beating.answer(kick, never) is None
        assert (loop.time(), kick.is_set(), database.asked) == (30.0, False, 1)
        assert await beating.answer(kick, 45.0) is None
        assert (loop.time(), database.asked) == (45.0, 1)
        late = Answer(lost=["a"])
        database.answers.put_nowait(late)
        assert await beating.answer(kick, never) is late
        assert not beating.is_under_way
        assert not beating.is_lease_over  # it claimed jobs just now
        database.answers.put_nowait(Unavailable("away"))
        assert await beating.answer(kick, never) is None
        assert not beating.is_lease_over
        await beating.end()
        return [record.getMessage() for record in caplog.records]

    assert virtual_time.run(go()) == ["learning_database_away"] * 2


def test_what_is_in_the_way_of_beats_is_said_once_and_that_it_is_over(caplog):
    caplog.set_level("INFO")

    async def go():
        kick, never = asyncio.Event(), float("inf")
        database = Database()
        beating = Beating(database.beat, 30.0)
        for answer in (
            Unavailable("away"), Unavailable("still"), ClockOff("9.1 s ahead"), ClockOff("9.2 s"),
            Answer(), Answer(), Unavailable("away"),
        ):  # fmt: skip
            database.answers.put_nowait(answer)
            await beating.answer(kick, never)
        return [(one.getMessage(), getattr(one, "why", "")) for one in caplog.records]

    assert virtual_time.run(go()) == [
        ("learning_database_away", "away"), ("learning_database_away", "9.1 s ahead"),
        ("learning_database_back", ""), ("learning_database_away", "away"),
    ]  # fmt: skip
