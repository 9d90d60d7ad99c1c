"""Several processes on one database, and kill -9 of one that has jobs in hand."""

import asyncio
import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from aiohttp import web

from cloud.jobs.database import JobDatabase
from cloud.jobs.results import counts_by_state
from cloud.jobs.settings import JobSettings
from tests.cloud.jobs.sample import CALLER, SECRET, answer_to, job, opened, put, rules, seen, url_in

_WORKER = Path(__file__).with_name("worker_process.py")
WAIT_S = 60.0
"""Deadline of every wait; none of them is a pause."""


class Worker:
    """`asked`: the jobs that it was given to run, in order."""

    def __init__(self, url: str, with_: JobSettings, ahead_s: float, hangs: int) -> None:
        tree = with_.model_dump(mode="json", exclude_defaults=True)
        if with_.webhook.secrets:
            tree["webhook"]["secrets"] = {CALLER: [SECRET]}
        self._process = subprocess.Popen(
            [sys.executable, str(_WORKER), url, str(ahead_s), str(hangs), json.dumps(tree)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"
        self.asked: list[int] = []
        self._said = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def wait_for(self, true: Callable[[list[int]], bool]) -> None:
        with self._said:
            assert self._said.wait_for(lambda: true(self.asked), WAIT_S)

    def kill(self) -> None:
        self._process.kill()
        self._end()

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._end()
        assert self._process.returncode == 0

    def _end(self) -> None:
        self._process.wait(WAIT_S)
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._said:
                self.asked.append(int(line.split()[1]))
                self._said.notify_all()


@contextlib.contextmanager
def worker(
    folder: Path, with_: JobSettings | None = None, *, ahead_s: float = 0, hangs: int = -1
) -> Iterator[Worker]:
    started = Worker(url_in(folder), with_ or rules(), ahead_s, hangs)
    try:
        yield started
    finally:
        if started._process.returncode is None:
            started.kill()


def wait_until(true: Callable[[], bool]) -> None:
    """For what other processes write."""
    end = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def all_done(database: JobDatabase, count: int) -> bool:
    return database.read(counts_by_state) == {("done", None): count}


def test_two_processes_on_one_database_run_each_job_once(tmp_path: Path) -> None:
    with opened(url_in(tmp_path)) as database:
        few = rules(in_hand_max=4, look_s=0.01)
        with worker(tmp_path, few) as one, worker(tmp_path, few) as two:
            count = 0
            while count < 200 or not (one.asked and two.asked):  # on a busy machine one may be late
                assert count < 1_900, "one of them takes all"
                count += 1
                put(database, job(count), time.time())
            wait_until(lambda: all_done(database, count))
            one.end()
            two.end()
            assert sorted(one.asked + two.asked) == list(range(1, count + 1))
        for n in range(1, count + 1):
            assert seen(database, n).answer == answer_to(job(n).body)


def test_the_jobs_of_a_killed_process_are_answered_once_by_another(tmp_path: Path) -> None:
    lease_s, told = rules().lease_s, list[str]()
    hooked = rules(webhook={
        "allow_http": True, "allow_private": ["127.0.0.0/8"], "secrets": {CALLER: [SECRET]},
    })  # fmt: skip
    with receiver(told) as (address, port), opened(url_in(tmp_path)) as database:
        hooked = hooked.model_copy(
            update={"webhook": hooked.webhook.model_copy(update={"ports": (port,)})}
        )
        for n in range(1, 21):
            put(database, job(n, webhook=address), time.time())
        with worker(tmp_path, hooked, hangs=3) as first:
            first.wait_for(lambda asked: len(asked) == 20)
            wait_until(lambda: database.read(counts_by_state).get(("done", None)) == 3)
            first.kill()
        finished = {n for n in range(1, 21) if seen(database, n).view.state == "done"}
        with worker(tmp_path, hooked, ahead_s=lease_s + 1, hangs=5) as second:
            second.wait_for(lambda asked: len(asked) == 17)
            assert set(second.asked) == set(range(1, 21)) - finished  # no answer is made twice
            wait_until(lambda: database.read(counts_by_state).get(("done", None)) == 8)
            second.kill()
        with worker(tmp_path, hooked, ahead_s=2 * (lease_s + 1)) as third:
            wait_until(lambda: all_done(database, 20))
            wait_until(
                lambda: all(seen(database, n).view.delivery == "delivered" for n in range(1, 21))
            )
            third.end()
            assert len(third.asked) == 12
        assert {seen(database, n).answer for n in range(1, 21)} == {
            answer_to(job(n).body) for n in range(1, 21)
        }
    assert set(told) == {f"msg_{job(n).id}" for n in range(1, 21)}  # each, at least once


def test_a_job_that_kills_every_worker_is_failed(tmp_path: Path) -> None:
    with opened(url_in(tmp_path)) as database:
        put(database, job(1), time.time())
        for death in range(rules().claims_max):
            with worker(tmp_path, ahead_s=death * (rules().lease_s + 1), hangs=0) as one:
                one.wait_for(lambda asked: asked == [1])
                one.kill()
        with worker(tmp_path, ahead_s=3 * (rules().lease_s + 1)) as last:
            wait_until(lambda: seen(database).view.state == "failed")
            last.end()
            assert last.asked == []
        failure = seen(database).view.failure
        assert failure is not None
        assert failure.reason == "poison"


@contextlib.contextmanager
def receiver(told: list[str]) -> Iterator[tuple[str, int]]:
    """A webhook receiver on a free port of loopback, in a thread; notes the messages' ids."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def take(request: web.Request) -> web.Response:
        await request.read()
        told.append(request.headers["webhook-id"])
        return web.Response()

    async def start() -> web.AppRunner:
        app = web.Application()
        app.router.add_post("/hook", take)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return runner

    runner = asyncio.run_coroutine_threadsafe(start(), loop).result(WAIT_S)
    try:
        port = runner.addresses[0][1]
        yield f"http://127.0.0.1:{port}/hook", port
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(WAIT_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
