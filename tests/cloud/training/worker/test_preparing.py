"""A job's folder: a checkpoint of another machine, old folders that go."""

import asyncio
import errno
import os
import shutil
import signal
import subprocess
import sys

import pytest

from cloud.registry.artifacts.folder_blobs import FolderBlobs
from cloud.training.documents import Half, JobSpec, JobState
from cloud.training.store.claim_rows import Claimed
from cloud.training.worker.bundles import BundleShelf
from cloud.training.worker.preparing import Preparing, _copied
from cloud.training.worker.sharing import CHECKPOINTS
from cloud.training.worker.threads import Threads
from shared.bundle.reader import open_bundle
from shared.disk import NoRoom
from shared.errors import Disconnected
from tests.cloud.training.worker.standing import ROOT, Standing, until
from tests.tiny_bundle import write_tiny_bundle

CONTENT = b"0123456789" * 10_000
HASH = "c" * 64
KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from cloud.registry.artifacts.folder_blobs import FolderBlobs
from cloud.training.store.claim_rows import Claimed
from cloud.training.documents import JobSpec
from cloud.training.worker.bundles import BundleShelf
from cloud.training.worker.config import load
from cloud.training.worker.preparing import Preparing
from cloud.training.worker.threads import Threads

class Half(FolderBlobs):
    def parts(self, sha256):
        yield next(iter(super().parts(sha256)))[:50_000]
        os.kill(os.getpid(), signal.SIGKILL)

config, spec = load(Path(sys.argv[1]), {}), JobSpec.model_validate_json(sys.argv[2])
shelf = BundleShelf(config.worker.bundles, None, config.state_dir)
preparing = Preparing(config.worker, Half(Path(sys.argv[3])), shelf, config.work_dir)
job = Claimed("job", "o", spec, 1, 0.0, ("c" * 64, "000002.txt"))
asyncio.run(preparing.order(job, Threads()))
"""


def test_a_kill_while_a_checkpoint_is_fetched_leaves_no_stump_of_it(tmp_path):
    at = Standing(tmp_path / "at")
    at.close()
    config, spec, place = at.config, at.spec("trains"), at.state / "artifacts"
    blobs = FolderBlobs(place)
    blobs.put(HASH, CONTENT)
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, at.config_path, spec.model_dump_json(), place],
        cwd=ROOT, check=False,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL
    shelf = BundleShelf(config.worker.bundles, None, config.state_dir)
    preparing = Preparing(config.worker, blobs, shelf, config.work_dir)
    job = Claimed("job", "o", spec, 2, 0.0, (HASH, "000002.txt"))
    checkpoints = preparing.folder("job") / CHECKPOINTS
    assert list(checkpoints.iterdir()) == []
    asyncio.run(preparing.order(job, Threads()))
    assert {one.name: one.read_bytes() for one in checkpoints.iterdir()} == {"000002.txt": CONTENT}


class Away(FolderBlobs):
    """As a bucket is while its network is cut: what it has is not to be had."""

    def parts(self, sha256):
        raise Disconnected("the bucket cannot be reached")


def test_a_checkpoint_that_cannot_be_had_now_is_waited_for_and_one_that_is_gone_is_not(tmp_path):
    at = Standing(tmp_path / "at")
    at.close()
    config, said = at.config, []
    shelf = BundleShelf(config.worker.bundles, None, config.state_dir)
    job = Claimed("job", "o", at.spec("trains"), 2, 0.0, (HASH, "000002.txt"))
    away = Preparing(config.worker, Away(at.state / "artifacts"), shelf, config.work_dir)
    with pytest.raises(Disconnected, match="the bucket cannot be reached"):
        asyncio.run(away.order(job, Threads(), said.append))
    assert said == []
    gone = Preparing(
        config.worker, FolderBlobs(at.state / "artifacts"), shelf, config.work_dir
    )  # fmt: skip
    asyncio.run(gone.order(job, Threads(), said.append))
    (line,) = said
    assert line.startswith("the checkpoint of another machine is not taken: ")
    assert f"there is no artifact {HASH}" in line


def test_two_bundles_whose_folders_are_called_the_same_do_not_become_one(tmp_path):
    at = Standing(tmp_path / "at")
    at.close()
    places = [tmp_path / place / "model" for place in ("old", "new")]
    for place, version in zip(places, ("1.0.0", "1.1.0"), strict=True):
        write_tiny_bundle(place, version=version)
    shelf = BundleShelf(places, None, at.config.state_dir)
    preparing = Preparing(at.config.worker, at.blobs, shelf, at.config.work_dir)
    (at.base / "b.npz").write_text("{}")
    recipe = Half(
        version="1.2.0", source="tiny-edge@1.0.0", teacher="tiny-edge@1.1.0", base="b"
    )  # fmt: skip
    job = Claimed("job", "o", JobSpec(recipe=recipe), 1, 0.0, None)
    order = asyncio.run(preparing.order(job, Threads()))
    for version in ("1.0.0", "1.1.0"):
        assert open_bundle(order.bundles[f"tiny-edge@{version}"]).manifest.version == version


def test_no_job_begins_in_an_old_folder_that_is_being_removed(tmp_path, monkeypatch):
    at = Standing(tmp_path / "at", "folders_kept = 0")
    remove, removed = shutil.rmtree, []

    async def claimed_and_prepared(job):
        """Whoever waits for a slow disk waits for as long as a job takes to begin, or half a second."""
        await at.until(job, "running", "done", "failed")
        inputs = at.config.work_dir / job / "inputs" / "bundles" / "tiny-edge@1.0.0"

        async def look():
            return inputs.exists()

        try:
            async with asyncio.timeout(0.5):
                await until(look, bool)
        except TimeoutError:
            pass

    async def go():
        first = await at.submit("trains", steps=20, pace_s=0.05, cpus=16)
        async with at.working():
            await at.until(first, "running")
            job = await at.submit("trains", steps=5, cpus=16, attempts_max=1)

            def on_a_slow_disk(path, **more):
                if path == at.config.work_dir / job:
                    asyncio.run(claimed_and_prepared(job))
                    removed.append(path)
                remove(path, **more)

            monkeypatch.setattr(shutil, "rmtree", on_a_slow_disk)
            (at.config.work_dir / job).mkdir()
            return await at.over(job)

    over = asyncio.run(go())
    at.close()
    assert removed
    assert (over.state, over.why) == (JobState.DONE, "")


def folders(at, names):
    """Each with a checkpoint and what an attempt was given; the first is the oldest."""
    for age, name in enumerate(reversed(names)):
        folder = at.config.work_dir / name
        for inside in ("inputs/bundles", "tmp", CHECKPOINTS):
            (folder / inside).mkdir(parents=True)
            (folder / inside / "file").write_bytes(CONTENT)
        os.utime(folder, (1e9 - age, 1e9 - age))


def left(at):
    """By folder, what is in it."""
    return {
        folder.name: sorted(one.name for one in folder.iterdir())
        for folder in at.config.work_dir.iterdir() if folder.is_dir()
    }  # fmt: skip


def preparing_with(at, **settings):
    worker = at.config.worker.model_copy(update=settings)
    return Preparing(worker, at.blobs, None, at.config.work_dir)


def test_of_jobs_that_a_worker_has_not_only_checkpoints_stay(tmp_path):
    at = Standing(tmp_path / "at")
    folders(at, ["old", "new", "ours"])
    preparing_with(at, folders_kept=1).prune(frozenset({"ours"}))
    assert left(at) == {"new": [CHECKPOINTS], "ours": [CHECKPOINTS, "inputs", "tmp"]}
    at.close()


def test_without_room_the_oldest_folders_go_and_never_one_of_a_job_that_runs(tmp_path):
    at = Standing(tmp_path / "at")
    folders(at, ["ours", "old", "new"])
    preparing_with(at, free_bytes_min=1).make_room(frozenset({"ours"}))
    assert sorted(left(at)) == ["new", "old", "ours"]
    preparing_with(at, free_bytes_min=2**60).make_room(frozenset({"ours"}))
    assert sorted(left(at)) == ["ours"]
    at.close()


def test_a_bundle_for_which_there_is_no_room_is_said_to_have_none(tmp_path, monkeypatch):
    bundle = write_tiny_bundle(tmp_path / "bundle")

    def full(source, to):
        raise OSError(errno.ENOSPC, "No space left on device", str(to))

    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(NoRoom, match="No space left on device; free space on its disk"):
        _copied(bundle, tmp_path / "inputs")
