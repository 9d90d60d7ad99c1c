"""Checkpoints that are copied to the store: one after the other, and what goes wrong with it."""

import asyncio

import pytest

from cloud.registry.artifacts.folder_blobs import FolderBlobs
from cloud.training.recipes import checkpoint_file
from cloud.training.worker import keeping
from cloud.training.worker.sharing import CHECKPOINTS, Sharing
from cloud.training.worker.threads import Threads
from shared.errors import Disconnected
from tests.cloud.training.worker.standing import SlowBlobs, Standing
from tests.cloud.training.worker.test_last_words import surroundings


class Away(FolderBlobs):
    def put(self, sha256, content):
        raise Disconnected("the bucket cannot be reached")


@pytest.fixture
def at(tmp_path):
    standing = Standing(tmp_path / "at")
    yield standing
    standing.close()


async def claimed(at, desk):
    await desk.begin("nothing")
    await at.submit("trains")
    (job,) = (await desk.beat((), "nothing", claims=True)).claimed
    return job


def checkpoints(at, job):
    folder = at.config.work_dir / job.id
    (folder / CHECKPOINTS).mkdir(parents=True)
    paths = [folder.absolute() / CHECKPOINTS / f"{step:06}.txt" for step in (1, 2)]
    for path in paths:
        path.write_text(path.name)
    return folder, paths


def test_the_last_one_waits_for_the_one_under_way_and_stays(at):
    desk, _ = surroundings(at)
    blobs = SlowBlobs(at.state / "artifacts")

    async def go():
        job = await claimed(at, desk)
        folder, (first, second) = checkpoints(at, job)
        sharing = Sharing(job, folder, blobs, desk, 0.0, Threads())
        sharing.written(first)
        assert await asyncio.to_thread(blobs.begun.wait, 60)
        sharing.written(second)
        last = asyncio.create_task(sharing.last())
        ended, _ = await asyncio.wait([last], timeout=0.3)
        assert not ended
        blobs.let.set()
        await last

    asyncio.run(go())
    found = at.database.read(
        lambda c: c.exec_driver_sql("SELECT checkpoint, checkpoint_name FROM training_jobs").one()
    )
    assert found.checkpoint_name == "000002.txt"
    assert b"".join(blobs.parts(found.checkpoint)) == b"000002.txt"
    assert [one.sha256 for one in blobs.walk()] == [found.checkpoint]  # the older one went


def test_that_none_can_be_copied_is_said_once_a_job(at, caplog):
    desk, _ = surroundings(at)

    async def go():
        job = await claimed(at, desk)
        folder, (first, second) = checkpoints(at, job)
        sharing = Sharing(
            job, folder, Away(at.state / "artifacts"), desk, 0.0, Threads()
        )  # fmt: skip
        for path in (first, second):
            sharing.written(path)
            await sharing.last()
        await sharing.last()

    asyncio.run(go())
    said = [one for one in caplog.records if one.getMessage() == "checkpoint_not_shared"]
    assert [one.why for one in said] == ["the bucket cannot be reached"]


def test_a_checkpoint_that_a_job_may_write_may_be_shared():
    assert keeping.FILE_BYTES_MAX >= checkpoint_file.BYTES_MAX
