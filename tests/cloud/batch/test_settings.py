from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from cloud.batch.settings import BatchSettings, NearLineJob

JOB: dict[str, Any] = {"name": "belt", "folder": "in", "out": "out", "model": "tiny-cloud"}


def test_a_job_with_its_defaults() -> None:
    job = NearLineJob.model_validate(JOB)
    assert (job.every_s, job.window_s, job.folder) == (900, 900, Path("in"))


def test_a_window_is_not_longer_than_the_time_to_the_next() -> None:
    assert NearLineJob.model_validate({**JOB, "window_minutes": 60}).window_s == 900
    assert NearLineJob.model_validate({**JOB, "window_minutes": 5}).window_s == 300


@pytest.mark.parametrize(
    "change", [{"url": "s3://b/x"}, {"topic": "a/#"}, {"folder": None}], ids=str
)
def test_one_source_each(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="give one of folder, url and topic"):
        NearLineJob.model_validate({**JOB, **change})


@pytest.mark.parametrize("topic", ["$share/x/a", "", "a\0b"])
def test_topics_that_are_none(topic: str) -> None:
    with pytest.raises(ValidationError, match="topic"):
        NearLineJob.model_validate({**JOB, "folder": None, "topic": topic})


@pytest.mark.parametrize("other", [{"name": "belt", "out": "x"}, {"name": "x", "out": "out"}])
def test_jobs_share_neither_name_nor_answers(other: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="two jobs have the same"):
        BatchSettings.model_validate({"near_line": [JOB, {**JOB, **other}]})
