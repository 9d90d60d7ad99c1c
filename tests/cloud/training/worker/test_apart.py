"""What keeps jobs off other work: a cgroup's files, a real process's priority, its environment."""

import asyncio
import os
import subprocess
import sys

import pytest

from cloud.training.worker.apart import Cgroup, environment, folder_bytes, own_cgroup
from cloud.training.worker.notes import Notes
from cloud.training.worker.places import Places
from cloud.training.worker.settings import TrainWorker
from shared.errors import Malformed, Unavailable
from tests.cloud.training.worker.standing import Standing


@pytest.fixture
def delegated(tmp_path):
    """The files of a delegated group, as the kernel shows them."""
    own = tmp_path / "cgroup" / "user.slice" / "w.service"
    own.mkdir(parents=True)
    (tmp_path / "cgroup" / "cgroup.controllers").write_text("cpu memory pids")
    (own / "cgroup.controllers").write_text("cpu memory pids\n")
    membership = tmp_path / "membership"
    membership.write_text("1:name=systemd:/x\n0::/user.slice/w.service\n")
    return own, membership, [tmp_path / "absent", tmp_path / "cgroup"]


def test_a_delegated_cgroup_is_used(delegated):
    own, membership, mounts = delegated
    found = own_cgroup("auto", 3, mounts, membership)
    assert isinstance(found, Cgroup)
    assert (own / "train-worker" / "cgroup.procs").read_text() == str(os.getpid())
    assert (own / "cgroup.subtree_control").read_text() == "+cpu +memory"
    assert (own / "train-jobs" / "cpu.weight").read_text() == "1"
    assert (own / "train-jobs" / "cpu.max").read_text() == "300000 100000"
    place = found.make("job-1", 2, 1000)
    assert (place / "cpu.max").read_text() == "200000 100000"
    assert (place / "memory.max").read_text() == "1000"
    found.end("job-1")
    assert (place / "cgroup.kill").read_text() == "1"


def test_where_there_is_none_it_says_why(delegated, tmp_path):
    own, membership, mounts = delegated
    assert own_cgroup("never", 1) == "no cgroup is wanted"
    assert own_cgroup("auto", 1, [tmp_path / "absent"], membership) == "no cgroup v2 here"
    (own / "cgroup.controllers").write_text("pids")
    assert "the controllers cpu, memory are not delegated" in own_cgroup(
        "auto", 1, mounts, membership
    )
    with pytest.raises(Malformed, match="Delegate=cpu memory"):
        own_cgroup(own, 1)


def test_a_jobs_process_gives_way_and_is_bound_to_its_cores(tmp_path):
    core = min(os.sched_getaffinity(0))
    at = Standing(
        tmp_path / "at", f"gives_way = true\ncores = [{core}]\nmemory_bytes_max = 4294967296"
    )
    at.close()
    at.config.work_dir.mkdir()
    said = asyncio.run(Places(at.config).probe())
    assert "SCHED_IDLE" in said
    assert f"cores {core}" in said
    assert "memory 4096 MiB" in said
    assert "no cgroup is wanted" in said


WORKER = """
import os, sys
from cloud.training.worker.apart import give_way
from cloud.training.worker.settings import TrainWorker
os.nice(int(sys.argv[1]))
give_way(TrainWorker.model_validate_json(sys.argv[2]))
print(os.getpriority(os.PRIO_PROCESS, 0), *os.sched_getaffinity(0))
"""


@pytest.mark.parametrize(("settings", "least"), [("{}", 10), ('{"gives_way": false}', 0)])
@pytest.mark.parametrize("nicer", [0, 5, 15])
def test_the_worker_itself_is_at_nice_10_at_least(settings, least, nicer):
    began = min(os.getpriority(os.PRIO_PROCESS, 0) + nicer, 19)
    said = subprocess.check_output([sys.executable, "-c", WORKER, str(nicer), settings], text=True)
    assert said.split() == [str(max(began, least)), *map(str, os.sched_getaffinity(0))]


def test_the_worker_itself_keeps_to_its_cores():
    core = min(os.sched_getaffinity(0))
    words = [sys.executable, "-c", WORKER, "0", f'{{"cores": [{core}]}}']
    assert subprocess.check_output(words, text=True).split()[1:] == [str(core)]


def test_cores_that_are_not_there_are_said_before_a_job_begins(tmp_path):
    at = Standing(tmp_path / "at", "cores = [4000]")
    at.close()
    at.config.work_dir.mkdir()
    with pytest.raises(Unavailable, match=r"none of them .*see worker\.cores"):
        asyncio.run(Places(at.config).probe())


def test_a_job_inherits_no_secret(monkeypatch, tmp_path):
    monkeypatch.setenv("HYBRIDGE_API_KEY", "secret")
    found = environment(3, "", tmp_path)
    assert "HYBRIDGE_API_KEY" not in found
    assert found["MKL_NUM_THREADS"] == "3"
    assert found["CUDA_VISIBLE_DEVICES"] == ""


def test_a_job_is_told_of_the_ray_cluster_that_the_settings_name_and_of_no_other(
    monkeypatch, tmp_path
):
    monkeypatch.setenv("RAY_ADDRESS", "somebody.elses:6379")
    at = Standing(tmp_path / "at", 'ray_address = "head.example:6379"')
    at.close()
    named = at.config.worker.ray_address
    assert environment(1, "", tmp_path, named)["RAY_ADDRESS"] == "head.example:6379"
    assert "RAY_ADDRESS" not in environment(1, "", tmp_path, TrainWorker().ray_address)


def test_a_jobs_process_is_told_of_the_ray_cluster(tmp_path):
    at = Standing(tmp_path / "at", 'ray_address = "head.example:6379"')

    async def go():
        async with at.working():
            job = await at.submit("trains", steps=2)
            await at.over(job)
        return await at.tracking.run(job)

    run = asyncio.run(go())
    at.close()
    assert run.parameters["RAY_ADDRESS"] == "head.example:6379"


def test_a_folder_is_counted_as_it_fills_the_disk(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "big").write_bytes(os.urandom(100_000))
    (tmp_path / "link").symlink_to("/usr")
    assert 100_000 <= folder_bytes(tmp_path) < 200_000


def test_what_a_job_says_while_the_database_is_away_is_bounded():
    notes = Notes()
    for _ in range(3):
        for number in range(1500):
            notes.said(f"{number}", 1.0)
        notes.put_back(notes.taken())
    taken = notes.taken()
    assert len(taken.lines) <= 2001
    assert "of which nothing is kept" in taken.lines[-1][1]
    assert notes.taken().lines == []


def test_that_something_was_dropped_is_said_once_a_job_when_it_was():
    notes, said = Notes(), []
    for beat in range(4):
        for _ in range(2100):
            notes.said("again", 100.0 + beat)
        said += [line for line in notes.taken().lines if line[1] != "again"]
    (line,) = said
    assert line[0] == 100.0
    assert line[1].startswith("(100 points and lines more, of which nothing is kept")
    notes = Notes(metrics={f"m{number}" for number in range(256)})
    notes.measured(1, {"one more": 1.0}, 50.0)
    taken = notes.taken()
    notes.put_back(taken)
    assert notes.taken().lines == taken.lines == [
        (50.0, "(1 points and lines more, of which nothing is kept; others may follow, unsaid)")
    ]  # fmt: skip


def test_one_job_has_so_many_metrics_however_long_it_goes_on():
    notes = Notes()
    names: set[str] = set()
    for step in range(10):
        notes.measured(step, {f"m{step}.{number}": 1.0 for number in range(64)}, 1.0)
        notes.measured(step, {"m0.0": float(step)}, 1.0)
        taken = notes.taken()
        names |= set(taken.figures)
        assert taken.figures["m0.0"] == step
    assert len(names) == 256
