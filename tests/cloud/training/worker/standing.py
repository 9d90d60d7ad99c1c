"""A learning database, a store of artifacts and a train-worker whose jobs are the fake child."""

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from cloud.registry.artifacts.folder_blobs import FolderBlobs
from cloud.training.documents import Half, JobSpec
from cloud.training.queue.queue import JobQueue
from cloud.training.store.database import LearningDatabase
from cloud.training.tracking.tracking import Tracking
from cloud.training.worker.config import WorkerConfig, load
from cloud.training.worker.service import TrainWorkerService
from tests.tiny_bundle import write_tiny_bundle

FAKE = (sys.executable, str(Path(__file__).with_name("fake_child.py")))
ROOT = Path(__file__).parents[4]
DEADLINE_S = 120.0
LOOK_S = 0.05
"""Between two looks: without it the one who looks takes the core from those whom it waits for."""
_DEFAULTS = {"gives_way": "false", "free_bytes_min": "0"}
"""Tests share this machine, and jobs that give way to everything would wait for them."""


class SlowBlobs(FolderBlobs):
    """A store that takes a file when it is let."""

    def __init__(self, root):
        super().__init__(root)
        self.begun, self.let = threading.Event(), threading.Event()

    def put(self, sha256, content):
        self.begun.set()
        assert self.let.wait(60)
        super().put(sha256, content)


class Standing:
    """Of one test: `folder` is its own."""

    def __init__(self, folder: Path, worker: str = "", training: str = "") -> None:
        self.folder = folder
        self.base, self.config_path = folder / "base", folder / "learning.toml"
        self.base.mkdir(parents=True)
        write_tiny_bundle(folder / "bundles" / "tiny-edge")
        self.config_path.write_text(
            'state_dir = "state"\nlog_level = "info"\n'
            f"[training]\nretry_s_min = 0.05\nretry_s_max = 0.1\n{training}\n"
            '[worker]\nname = "w"\ncpus = 16\nbeat_s = 0.1\nbase_data = "base"\ncgroup = "never"\n'
            f'bundles = ["bundles"]\ngrace_s = 5.0\n'
            + "".join(
                f"{name} = {value}\n" for name, value in _DEFAULTS.items() if name not in worker
            )
            + f"{worker}\n"
        )
        self.state = folder / "state"
        self.state.mkdir()
        self.database = LearningDatabase(self.config.database_url)
        self.database.open()
        self.blobs = FolderBlobs(self.state / "artifacts")
        self.queue = JobQueue(self.database, self.config.training, self.blobs, time.time)
        self.tracking = Tracking(self.database)

    @property
    def config(self) -> WorkerConfig:
        return load(self.config_path, {})

    def spec(self, does: str, *, steps: int = 5, pace_s: float = 0.0, **more: object) -> JobSpec:
        name = f"{does.replace('_', '-')}-{steps}-{int(pace_s * 1000)}"
        plan = {"does": does, "steps": steps, "pace_s": pace_s}
        (self.base / f"{name}.npz").write_text(json.dumps(plan))
        recipe = Half(version="1.0.1", source="tiny-edge@1.0.0", base=name)
        return JobSpec.model_validate({"recipe": recipe, "attempts_max": 2, **more})

    async def submit(self, does: str, **more: object) -> str:
        return (await self.queue.submit(self.spec(does, **more), "ann")).id

    async def until(self, job: str, *states: str):
        return await until(lambda: self.queue.job(job), lambda found: found.state in states)

    async def over(self, job: str):
        return await self.until(job, "done", "failed", "cancelled")

    @asynccontextmanager
    async def working(self):
        """A worker in this process, to its drain."""
        ready = asyncio.Event()
        service = TrainWorkerService(self.config, lambda *_: ready.set(), words=FAKE)
        running = asyncio.create_task(service.run())
        await asyncio.wait(
            [running, asyncio.ensure_future(ready.wait())], return_when="FIRST_COMPLETED"
        )
        if running.done():
            running.result()
        try:
            yield service
        finally:
            service.stop()
            assert await running

    @contextmanager
    def process(self):
        """A worker in a process of its own; killed at the end, if it lives."""
        with (self.folder / "worker.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("worker_process.py")), str(self.config_path)],
                stdout=subprocess.PIPE, stderr=log, text=True, cwd=ROOT,
            )  # fmt: skip
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line, (self.folder / "worker.log").read_text()
            yield process
        finally:
            process.kill()
            process.wait()
            process.stdout.close()

    def close(self) -> None:
        self.database.close()


async def until(look: Callable[[], Awaitable], seen: Callable[[object], bool]):
    """Ask another process's database until it says so; each look is a round trip in a thread."""
    ends = time.monotonic() + DEADLINE_S
    while not seen(found := await look()):
        assert time.monotonic() < ends, f"it never came to that: {found}"
        await asyncio.sleep(LOOK_S)
    return found
