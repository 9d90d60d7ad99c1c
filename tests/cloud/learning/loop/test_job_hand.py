"""Jobs are asked for only while training reads what serving answered."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from cloud.learning.documents import FeatureCheck
from cloud.learning.loop.commands import Submit
from cloud.learning.loop.job_hand import JobHand
from cloud.learning.store.loops import MIGRATIONS, LoopStore
from cloud.learning.store.settings import LoopsKept
from cloud.registry.artifacts.folder_blobs import FolderBlobs
from cloud.training.documents import FineTune, JobSpec
from cloud.training.queue.queue import JobQueue
from cloud.training.queue.settings import Training
from cloud.training.store.database import LearningDatabase
from cloud.training.tracking.tracking import Tracking
from shared.errors import Unavailable

RECIPE = FineTune(version="1.0.1", student="small@1.0.0", teacher="big@2.0.0", base="fashion-mnist")
SUBMIT = Submit(key="cycle-1", spec=JobSpec(recipe=RECIPE, data_set="0" * 64))


@pytest.fixture
def database(tmp_path: Path) -> Iterator[LearningDatabase]:
    opened = LearningDatabase(f"sqlite:///{tmp_path / 'learning.db'}")
    opened.open(MIGRATIONS)
    yield opened
    opened.close()


def checked(model: str, differ: int) -> FeatureCheck:
    return FeatureCheck(
        model=model, version="2.0.0", at=1.0, samples=32, inputs_differ=differ, answers_differ=0,
        largest=0.0, agrees=not differ, words=f"{differ} of 32 samples are other bytes",
    )  # fmt: skip


def test_no_job_while_training_would_read_other_bytes(
    database: LearningDatabase, tmp_path: Path
) -> None:
    loops, tracking = LoopStore(database, LoopsKept()), Tracking(database)
    queue = JobQueue(database, Training(), FolderBlobs(tmp_path / "blobs"), lambda: 1.0)
    hand = JobHand(queue, tracking, database, loops)
    loops.put_check(checked("another", 3))
    first = asyncio.run(hand.submitted(SUBMIT))
    loops.put_check(checked("big", 1))
    with pytest.raises(
        Unavailable, match=r"1 of 32 samples are other bytes.*hybridge loop check big"
    ):
        asyncio.run(hand.submitted(SUBMIT))
    loops.put_check(checked("big", 0))
    assert asyncio.run(hand.submitted(SUBMIT)) == first
