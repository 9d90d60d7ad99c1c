"""The bench's job is a real one, which stands still while it is held and works while it is let."""

import os
import time
from pathlib import Path

import pytest

from simulations.training_bench.worker import Job, spinning, training

pytestmark = pytest.mark.train

_DEADLINE_S = 30.0


def states(job: Job) -> set[str]:
    """Of its processes, as proc(5) has them: T is stopped."""
    return {
        Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
        for pid in job.pids
    }


def test_it_is_held_when_it_has_begun_and_works_when_it_is_let(tmp_path: Path) -> None:
    with training(tmp_path / "training", 1, "gives_way = false") as job:
        ends = time.monotonic() + _DEADLINE_S
        while states(job) != {"T"}:  # a thread on another core stops when the kernel gets to it
            assert time.monotonic() < ends
        before = job.cpu_s()
        assert job.cpu_s() == before > 0
        job.let(run=True)
        ends = time.monotonic() + _DEADLINE_S
        while job.cpu_s() == before:
            assert time.monotonic() < ends
        assert "cgroup" in job.kept_apart_by
    for pid in job.pids:
        assert not Path(f"/proc/{pid}").exists()


def test_what_only_spins_has_the_jobs_place_and_is_held_too(tmp_path: Path) -> None:
    with training(tmp_path / "training", 1, "cores = [0]") as job:
        with spinning(job, 2) as loops:
            assert len(loops.pids) == 2
            for pid in loops.pids:
                assert os.sched_getaffinity(pid) == os.sched_getaffinity(job.pids[0]) == {0}
                assert os.sched_getscheduler(pid) == os.SCHED_IDLE
        for pid in loops.pids:
            assert not Path(f"/proc/{pid}").exists()
