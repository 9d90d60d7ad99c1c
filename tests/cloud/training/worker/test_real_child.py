"""The engine's own process, with torch, under a real worker."""

import asyncio
import time

import numpy as np
import pytest

from cloud.training.documents import Fitting, JobSpec, JobState, Supervised
from cloud.training.worker.child import CHILD
from cloud.training.worker.service import TrainWorkerService
from tests.cloud.training.worker.standing import Standing

pytestmark = pytest.mark.train


def base_data(path):
    rng = np.random.default_rng(1)
    labels = np.arange(512) % 4
    images = (rng.integers(0, 60, (512, 28, 28)) + labels[:, None, None] * 60).astype(np.uint8)
    images[:, 0, 0] = 255
    names = np.frombuffer(b"a\nb\nc\nd", np.uint8)
    np.savez(
        path, train_images=images, train_labels=labels, calibrate_images=images[:256],
        calibrate_labels=labels[:256], names=names,
    )  # fmt: skip


def test_weights_from_nothing_become_a_bundle_in_the_store(tmp_path):
    at = Standing(tmp_path / "at")
    base_data(at.base / "tiny.npz")
    recipe = Supervised(
        version="1.0.0", name="tiny-net", network="edge-net", base="tiny",
        fitting=Fitting(epochs=1, batch=64),
    )  # fmt: skip

    async def go():
        ready = asyncio.Event()
        service = TrainWorkerService(at.config, lambda *_: ready.set(), time.time, CHILD)
        running = asyncio.create_task(service.run())
        job = await at.queue.submit(JobSpec(recipe=recipe, attempts_max=1), "ann")
        over = await at.over(job.id)
        logs = [line.text for line in await at.tracking.logs(job.id)]
        service.stop()
        assert await running
        return over, logs, await at.tracking.run(job.id) if over.run else None

    over, logs, run = asyncio.run(go())
    assert over.state is JobState.DONE, (over.why, logs[-5:])
    assert over.bundle == "tiny-net@1.0.0"
    assert "torch" in run.machine
    assert at.blobs.stat(over.bundle_sha256) is not None
    at.close()
