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


def checked(model: str, differ: int, version: str = "2.0.0") -> FeatureCheck:
    return FeatureCheck(
        model=model, version=version, at=1.0, samples=32, inputs_differ=differ, answers_differ=0,
        largest=0.0, agrees=not differ, words=f"{differ} of 32 samples are other bytes",
    )  # fmt: skip


@pytest.fixture
def hand(database: LearningDatabase, tmp_path: Path) -> JobHand:
    queue = JobQueue(database, Training(), FolderBlobs(tmp_path / "blobs"), lambda: 1.0)
    return JobHand(queue, Tracking(database), database, LoopStore(database, LoopsKept()))


def test_no_job_while_training_would_read_other_bytes(
    hand: JobHand, database: LearningDatabase
) -> None:
    loops = LoopStore(database, LoopsKept())
    loops.put_check(checked("big", 1))
    words = r"1 of 32 samples are other bytes.*hybridge loop check big"
    with pytest.raises(Unavailable, match=words):
        asyncio.run(hand.submitted(SUBMIT))
    loops.put_check(checked("big", 0))
    assert asyncio.run(hand.submitted(SUBMIT)).job


@pytest.mark.parametrize(
    "check", [checked("another", 3), checked("big", 3, "1.9.0")], ids=["model", "version"]
)
def test_what_another_teacher_was_served_holds_nobody_up(
    hand: JobHand, database: LearningDatabase, check: FeatureCheck
) -> None:
    LoopStore(database, LoopsKept()).put_check(check)
    assert asyncio.run(hand.submitted(SUBMIT)).job


def test_a_job_that_was_asked_for_before_is_found_again_whatever_a_check_says_now(
    hand: JobHand, database: LearningDatabase
) -> None:
    first = asyncio.run(hand.submitted(SUBMIT))
    LoopStore(database, LoopsKept()).put_check(checked("big", 3))
    assert asyncio.run(hand.submitted(SUBMIT)) == first
