"""Real job processes that do well or badly, all on one worker: how each ends, and in which words."""

import asyncio
import os

import pytest

from cloud.training.documents import JobState
from tests.cloud.training.worker.standing import Standing

BAD = {
    "floods": "more than 50 lines a second",
    "floods_stderr": "more than 50 lines a second",
    "long_line": "over 65536 bytes",
    "garbage": "no message",
    "hangs": "said nothing for 3 s (worker.silence_s)",
    "crashes": "SIGSEGV ended it",
    "ends": "ended with code 3",
    "no_room": "no_room: the disk is full",
    "faulty_disk": "away: the disk is faulty",
}
TWICE = "crashes"
"""May be tried again; the others may not, since each process takes a second."""


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """Every job to its end, once."""
    at = Standing(
        tmp_path_factory.mktemp("jobs"), "silence_s = 3.0\nlines_per_s_max = 50\ngpus = '1'"
    )

    async def all_of_them():
        jobs = {does: await at.submit(does, attempts_max=1) for does in BAD}
        jobs |= {does: await at.submit(does) for does in (TWICE, "fails", "spoils", "leaves")}
        jobs["trains"] = await at.submit("trains", steps=40, cpus=2)
        jobs["slow"] = await at.submit("trains", steps=10_000, pace_s=0.01, max_duration_s=1.5)
        jobs["pushes"] = await at.submit("trains", steps=7, push=True)
        async with at.working():
            found = {does: await at.over(job) for does, job in jobs.items()}
            run = await at.tracking.run(jobs["trains"])
            points = await at.tracking.points(jobs["trains"], "loss")
            logs = await at.tracking.logs(jobs["trains"])
            workers = await at.queue.workers()
        return found, run, points, logs, workers

    yield (at, *asyncio.run(all_of_them()))
    at.close()


@pytest.mark.parametrize("does", BAD)
def test_a_process_that_goes_astray_is_named_and_costs_an_attempt(seen, does):
    job = seen[1][does]
    assert job.state is JobState.FAILED
    assert BAD[does] in job.why
    attempts = 2 if does == TWICE else 1
    assert job.attempts == attempts
    assert f"given up after {attempts} of {attempts}" in job.why


def test_what_would_fail_again_is_not_tried_again(seen):
    job = seen[1]["fails"]
    assert (job.state, job.attempts) == (JobState.FAILED, 1)
    assert job.why == "nan_loss at step 7: the loss is NaN"


def test_without_a_registry_a_job_that_pushes_is_refused_before_its_work(seen):
    job = seen[1]["pushes"]
    assert (job.state, job.attempts, job.run) == (JobState.FAILED, 1, None)
    assert "this worker has no [worker.registry]" in job.why


def test_a_bundle_that_does_not_open_is_refused(seen):
    job = seen[1]["spoils"]
    assert (job.state, job.attempts) == (JobState.FAILED, 1)
    assert "manifest.json" in job.why


def test_a_job_that_takes_longer_than_it_may_fails(seen):
    job = seen[1]["slow"]
    assert job.state is JobState.FAILED
    assert "max_duration_s of 1.5" in job.why
    assert 1.5 <= job.worked_s < 30


def test_what_a_job_left_running_is_ended(seen):
    at, found, *_ = seen
    job = found["leaves"]
    assert job.state is JobState.DONE
    said = [line.text for line in asyncio.run(at.tracking.logs(job.id))]
    (left,) = [int(text.removeprefix("left ")) for text in said if text.startswith("left ")]
    with pytest.raises(ProcessLookupError):
        os.kill(left, 0)


def test_the_folder_of_a_job_that_is_over_goes(seen):
    at, found, *_ = seen
    assert not [job.id for job in found.values() if (at.config.work_dir / job.id).exists()]


def test_a_job_that_does_well_leaves_its_bundle_and_its_record(seen):
    at, found, run, points, logs, _ = seen
    job = found["trains"]
    assert (job.state, job.bundle, job.progress, job.why) == (
        JobState.DONE, "tiny-edge@1.0.1", 1.0, "",
    )  # fmt: skip
    assert [one.name for one in run.artifacts] == ["tiny-edge-1.0.1.hyb", "weights.txt"]
    assert job.bundle_sha256 == run.artifacts[0].sha256
    assert at.blobs.stat(job.bundle_sha256).bytes == run.artifacts[0].bytes
    assert [one.step for one in points] == list(range(1, 41))
    assert run.figures == {"loss": 1 / 40, "accuracy": 0.9}
    assert run.ended_at is not None
    assert {"it begins", "to stderr"} <= {one.text for one in logs}


def test_a_job_has_the_threads_and_the_gpus_that_are_its_own(seen):
    parameters = seen[2].parameters
    assert parameters["OMP_NUM_THREADS"] == "2"
    assert parameters["CUDA_VISIBLE_DEVICES"] == "1"


def test_a_worker_whose_jobs_are_over_has_all_its_cpus(seen):
    (worker,) = seen[5]
    assert worker.cpus == worker.cpus_free == 16
    assert worker.jobs == ()
