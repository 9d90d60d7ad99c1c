"""What the online tier has beside it: a real train-worker's job, and a loop that only spins; held and let."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cloud.registry.artifacts.folder_blobs import FolderBlobs
from cloud.training.documents import FineTuning, Fitting, JobSpec, NetworkName, Supervised
from cloud.training.queue.queue import JobQueue
from cloud.training.queue.settings import Training
from cloud.training.store.database import LearningDatabase
from cloud.training.tracking.tracking import Tracking
from cloud.training.worker.leftovers import MARK
from shared.errors import Unavailable

_START_S: Final = 300.0
_LOOK_S: Final = 0.5
_SPIN: Final = """
import sys
from shared.parent_process import end_with_parent
end_with_parent(int(sys.argv[1]))
print(flush=True)
while True: pass
"""
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Beside:
    """Under way; `pids` are all of its processes."""

    pids: tuple[int, ...]

    def let(self, *, run: bool) -> None:
        for pid in self.pids:
            os.kill(pid, signal.SIGCONT if run else signal.SIGSTOP)

    def cpu_s(self) -> float:
        """CPU seconds that it has had."""
        total = 0
        for pid in self.pids:
            stat = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
            total += int(stat[11]) + int(stat[12])
        return total / _TICKS_PER_S


@dataclass(slots=True)
class Job(Beside):
    kept_apart_by: str


@contextmanager
def training(
    folder: Path, cpus: int, settings: str, network: NetworkName = "edge-net"
) -> Iterator[Job]:
    """One job of `cpus` threads that has made its first step, held. `settings`: lines of `[worker]`.

    Raises `Unavailable` where it does not begin.
    """
    folder.mkdir(parents=True)
    config = folder / "learning.toml"
    config.write_text(
        f'state_dir = "state"\nlog_level = "warning"\n[worker]\nname = "bench"\ncpus = {cpus}\n'
        f"silence_s = 3600.0\nstart_s = 600.0\n{settings}\n"
    )
    (folder / "state").mkdir()
    database = LearningDatabase(f"sqlite:///{folder / 'state' / 'learning.db'}")
    database.open()
    queue = JobQueue(database, Training(), FolderBlobs(folder / "state" / "artifacts"), time.time)
    recipe = Supervised(
        version="1.0.0", name="bench", network=network, base="fashion-mnist",
        fitting=FineTuning(epochs=1000) if network == "edge-net" else Fitting(epochs=1000),
    )  # fmt: skip
    job = asyncio.run(queue.submit(JobSpec(recipe=recipe, cpus=cpus), "bench"))
    with (folder / "log").open("wb") as log:
        worker = subprocess.Popen(  # noqa: S603  our own module
            [sys.executable, "-m", "cloud", "train-worker", "--config", str(config)],
            stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    try:
        _wait_begun(Tracking(database), job.id, worker, folder / "log")
        (state,) = asyncio.run(queue.workers())
        found = Job(_marked(folder / "state" / "work" / job.id), state.kept_apart_by)
        found.let(run=False)
        try:
            yield found
        finally:
            with suppress(ProcessLookupError):
                found.let(run=True)
    finally:
        worker.terminate()
        try:
            worker.wait(60)
        except subprocess.TimeoutExpired:
            worker.kill()  # its job ends with it
            worker.wait()
        database.close()


@contextmanager
def spinning(job: Job, cpus: int) -> Iterator[Beside]:
    """`cpus` loops that touch no memory, on the job's cores and by its scheduling policy, held: what a busy
    core costs on this machine, whatever it computes. They are in no cgroup.
    """
    loops: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(cpus):
            words = [sys.executable, "-c", _SPIN, str(os.getpid())]
            loops.append(subprocess.Popen(words, stdout=subprocess.PIPE))  # noqa: S603  our own words
            assert loops[-1].stdout is not None
            loops[-1].stdout.readline()  # from here on it ends with this process
        for loop in loops:
            os.sched_setaffinity(loop.pid, os.sched_getaffinity(job.pids[0]))
            os.sched_setscheduler(loop.pid, os.sched_getscheduler(job.pids[0]), os.sched_param(0))
        found = Beside(tuple(loop.pid for loop in loops))
        found.let(run=False)
        yield found
    finally:
        for loop in loops:
            loop.kill()
            loop.communicate()


def _wait_begun(tracking: Tracking, job: str, worker: "subprocess.Popen[bytes]", log: Path) -> None:
    until = time.monotonic() + _START_S
    while not asyncio.run(tracking.points(job)):
        if worker.poll() is not None or time.monotonic() > until:
            said = [line.text for line in asyncio.run(tracking.logs(job))][-3:]
            raise Unavailable(f"the job did not begin: {said}; {log.read_text()[-300:]}")
        time.sleep(_LOOK_S)


def _marked(folder: Path) -> tuple[int, ...]:
    wanted, found = f"{MARK}={folder.absolute()}".encode(), []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdecimal() and wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return tuple(sorted(found))
