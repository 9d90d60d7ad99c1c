"""Processes that a job leaves: those that start others while they are looked for, those that hide."""

import asyncio
import os
import signal
import subprocess
import sys
import threading

import pytest

from cloud.training.documents import JobState
from cloud.training.worker.leftovers import MARK, end_leftovers
from tests.cloud.training.worker.standing import Standing


@pytest.fixture
def sleeper():
    """Starts a process that carries a folder's mark."""
    started = []

    def start(folder):
        process = subprocess.Popen(
            [sys.executable, "-c", "print(flush=True); import time; time.sleep(600)"],
            stdout=subprocess.PIPE, env={MARK: str(folder)},
        )  # fmt: skip
        started.append(process)
        process.stdout.read(1)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def test_one_that_is_started_while_they_are_looked_for_is_ended_too(tmp_path, sleeper):
    folder, proc = tmp_path / "job", tmp_path / "proc"
    first, second = sleeper(folder), sleeper(folder)
    seen, gone = proc / str(first.pid), proc / "gone"
    seen.mkdir(parents=True)
    os.mkfifo(seen / "environ")

    def be_read():
        """The second one is there only after the look for names, and while the first one is read."""
        with (seen / "environ").open("wb") as environ:
            (proc / str(second.pid)).symlink_to(f"/proc/{second.pid}")
            seen.rename(gone)
            environ.write(f"{MARK}={folder}".encode())

    thread = threading.Thread(target=be_read)
    thread.start()
    assert end_leftovers(folder, proc) == 2
    thread.join()
    assert [first.wait(), second.wait()] == [-signal.SIGKILL] * 2


def test_a_job_ends_although_something_it_started_holds_its_pipes(tmp_path, monkeypatch):
    monkeypatch.setattr("cloud.training.worker.child._PIPES_S", 0.2, raising=False)
    at, said = Standing(tmp_path / "at"), []

    async def one():
        job = await at.submit("hides", steps=2)
        try:
            async with at.working(), asyncio.timeout(60):
                return await at.over(job)
        finally:
            said.extend(line.text for line in await at.tracking.logs(job))

    try:
        over = asyncio.run(one())
    finally:
        (left,) = [int(text.removeprefix("left ")) for text in said if text.startswith("left ")]
        os.kill(left, signal.SIGKILL)
        at.close()
    assert (over.state, over.attempts) == (JobState.DONE, 1)
