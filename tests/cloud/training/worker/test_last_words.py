"""What a job said last is stored, however its end and a beat of its worker meet."""

import asyncio
import time

from cloud.training.documents import JobState
from cloud.training.worker.bundles import BundleShelf
from cloud.training.worker.desk import Desk
from cloud.training.worker.job import JobRun, Surroundings
from cloud.training.worker.places import Places
from cloud.training.worker.preparing import Preparing
from tests.cloud.training.worker.standing import FAKE, LOOK_S, Standing


def test_what_a_beat_took_is_stored_before_the_jobs_end_is(tmp_path):
    at = Standing(tmp_path / "at")
    config = at.config
    config.work_dir.mkdir(parents=True)
    desk = Desk(at.database, config.training, "w", "token", 16, time.time)
    shelf = BundleShelf(config.worker.bundles, None, config.state_dir)
    preparing = Preparing(config.worker, at.blobs, shelf, config.work_dir)
    around = Surroundings(
        config.worker, desk, at.blobs, preparing, Places(config), time.time, "1", FAKE
    )

    async def go():
        await desk.begin("nothing")
        job = await at.submit("trains", steps=3)
        (claimed,) = (await desk.beat((), "nothing", claims=True)).claimed
        run = JobRun(claimed, around)
        running = asyncio.create_task(run.run())
        async with desk.turn:  # a beat, from its first word
            while "accuracy" not in (held := run.held()).notes.figures:
                run.put_back(held)
                await asyncio.sleep(LOOK_S)
            ended, _ = await asyncio.wait([running], timeout=0.5)
            assert not ended
            assert not run.is_told
            assert not (await desk.beat([held], "nothing", claims=False)).lost
        await running
        assert run.is_told
        return await at.queue.job(job), await at.tracking.run(job), await at.tracking.points(job)

    job, run, points = asyncio.run(go())
    at.close()
    assert job.state is JobState.DONE
    assert run.figures == {"loss": 1 / 3, "accuracy": 0.9}
    assert [one.step for one in points] == [1, 2, 3]
