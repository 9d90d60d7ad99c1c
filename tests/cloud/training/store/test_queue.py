"""Jobs in a real database, on virtual time: claims, leases, retries, bounds; SQLite and PostgreSQL."""

import asyncio
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text

from cloud.registry.artifacts.folder_blobs import FolderBlobs
from cloud.training.documents import Artifact, JobSpec, JobState, Point, Quota, Run, Supervised
from cloud.training.queue.ending import Broke, Done, GaveBack
from cloud.training.queue.queue import JobQueue
from cloud.training.queue.settings import Training
from cloud.training.store.database import LearningDatabase
from cloud.training.tracking.tracking import Tracking
from cloud.training.worker.desk import Desk, Held
from cloud.training.worker.notes import Notes
from shared.errors import Conflict, InUse, Overloaded, Unavailable, Unknown
from tests.cloud.training.worker.standing import until

RECIPE = Supervised(version="1.0.0", name="n", network="edge-net", base="b")
RULES = Training(
    lease_s=10.0, retry_s_min=4.0, retry_s_max=100.0, kept_s=1000.0, points_max=16,
    log_lines_max=16, queued_max=8, quotas_max=2, kept_max=3,
    clock_off_s_max=1e12,
)  # fmt: skip


class At:
    def __init__(self, url, folder):
        self.now = 1000.0
        self.database = LearningDatabase(url)
        self.database.open()
        self.blobs = FolderBlobs(folder)
        self.count = 0
        self.queue = JobQueue(self.database, RULES, self.blobs, lambda: self.now, self.name)
        self.tracking = Tracking(self.database)

    def name(self, _):
        self.count += 1
        return f"job-{self.count}"

    def desk(self, name="w", cpus=4, token=None):
        return Desk(self.database, RULES, name, token or name, cpus, lambda: self.now)

    def submit(self, key=None, **more):
        spec = JobSpec.model_validate({"recipe": RECIPE, **more})
        return asyncio.run(self.queue.submit(spec, "ann", key))

    def beat(self, desk, *held, claims=True):
        return asyncio.run(desk.beat(held, "", claims=claims))

    def job(self, name):
        return asyncio.run(self.queue.job(name))

    def end(self, desk, job, ended, **more):
        return asyncio.run(desk.end(held(job), ended, **more))


def held(job, notes=None, worked_s=1.0):
    return Held(job, notes or Notes(), worked_s, 0.5)


@pytest.fixture(params=["sqlite", "postgresql"])
def at(request, tmp_path):
    url = (
        f"sqlite:///{tmp_path / 'learning.db'}"
        if request.param == "sqlite"
        else request.getfixturevalue("postgres").new_database()
    )
    found = At(url, tmp_path / "artifacts")
    yield found
    found.database.close()


def test_a_job_is_claimed_once_and_ends_with_its_bundle(at):
    at.submit()
    one, other = at.desk("w"), at.desk("x")
    (job,) = at.beat(one).claimed
    assert at.beat(other).claimed == []
    assert at.job("job-1").state is JobState.RUNNING
    kept = Artifact(name="b.hyb", sha256="a" * 64, bytes=3)
    at.beat(
        one,
        held(
            job,
            Notes(
                run=Run(id=job.id, parameters={}, code_version="1", machine="m", started_at=at.now)
            ),
        ),
    )
    last = held(job, Notes(figures={"accuracy": 0.5}))
    assert asyncio.run(one.end(last, Done("n@1.0.0", "a" * 64), [kept]))
    done = at.job("job-1")
    assert (done.state, done.bundle, done.attempts, done.place) == (
        JobState.DONE,
        "n@1.0.0",
        1,
        None,
    )
    run = asyncio.run(at.tracking.run("job-1"))
    assert (run.artifacts, run.figures) == ((kept,), {"accuracy": 0.5})


def test_many_workers_never_get_one_job_twice(at):
    for _ in range(8):
        at.submit()
    desks = [at.desk(f"w{n}", cpus=2) for n in range(6)]
    for desk in desks:
        at.beat(desk, claims=False)
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda desk: at.beat(desk).claimed, desks))
    claimed = [job.id for jobs in found for job in jobs]
    assert sorted(claimed) == sorted(f"job-{n}" for n in range(1, 9))


def test_a_worker_that_vanished_loses_its_job_when_the_lease_is_over(at):
    at.submit(attempts_max=2)
    lost, finder = at.desk("w"), at.desk("x")
    (job,) = at.beat(lost).claimed
    at.now += 9.0
    assert at.beat(finder).claimed == []
    at.now += 2.0
    at.beat(finder)
    waits = at.job("job-1")
    assert (waits.state, waits.why.split(";")[0]) == (JobState.QUEUED, "its worker w vanished")
    at.now += 4.0
    (again,) = at.beat(finder).claimed
    assert again.attempts == 2
    assert at.beat(lost, held(job)).lost == ["job-1"]  # whoever comes too late
    assert not at.end(lost, job, Done("n@1.0.0", "a" * 64))
    at.now += 11.0
    asyncio.run(at.queue.sweep())
    gone = at.job("job-1")
    assert gone.state is JobState.FAILED
    assert "given up after 2 of 2" in gone.why


@pytest.mark.parametrize(("off_s", "words"), [(32.0, "32.* s ahead of"), (-32.0, "32.* s behind")])
def test_whose_clock_is_off_takes_no_jobs_of_others(at, off_s, words):
    rules = Training()  # lease_s = 30
    at.now = time.time() - 10
    at.submit()
    right = Desk(at.database, rules, "w", "w", 4, time.time)
    asyncio.run(right.begin(""))
    (job,) = at.beat(right).claimed

    def wrong():
        return time.time() + off_s

    desk = Desk(at.database, rules, "x", "x", 4, wrong)
    queue = JobQueue(at.database, rules, at.blobs, wrong)
    for asked in (desk.begin("nothing"), desk.beat((), "", claims=True), queue.sweep()):
        with pytest.raises(Unavailable, match=f"clock is {words} .*keep the clocks"):
            asyncio.run(asked)
    assert at.job("job-1").worker == "w"
    assert at.beat(right, held(job)).lost == []


def test_a_clock_that_is_a_little_off_is_taken(at):
    for off_s in (-1.0, 1.0):
        desk = Desk(at.database, Training(), "w", "w", 4, lambda off_s=off_s: time.time() + off_s)
        asyncio.run(desk.begin(""))
        assert at.beat(desk).claimed == []


def test_pauses_between_attempts_double(at):
    at.submit(attempts_max=3)
    desk = at.desk()
    for pause_s in (4.0, 8.0):
        (job,) = at.beat(desk).claimed
        at.end(desk, job, GaveBack("it crashed", costs=True))
        at.now += pause_s - 0.1
        assert at.beat(desk).claimed == []
        at.now += 0.2
    (job,) = at.beat(desk).claimed
    at.end(desk, job, GaveBack("it crashed", costs=True))
    assert at.job("job-1").why == "it crashed; given up after 3 of 3 attempts"


def test_what_meets_a_store_that_is_away_waits_longer_each_time_and_costs_no_attempt(at):
    at.submit(attempts_max=1)
    desk = at.desk()
    for times, pause_s in ((1, 4.0), (2, 8.0), (3, 16.0)):
        (job,) = at.beat(desk).claimed
        at.end(desk, job, GaveBack("the store is away", costs=False, away=times))
        found = at.job("job-1")
        assert (found.state, found.attempts) == (JobState.QUEUED, 0)
        assert found.why.startswith(f"the store is away; tried again in {pause_s:g} s")
        at.now += pause_s - 0.1
        assert at.beat(desk).claimed == []
        at.now += 0.2


def test_a_job_that_finds_its_store_away_at_one_worker_is_another_ones_turn(at):
    at.submit(attempts_max=1)
    broken, healthy = at.desk("a", cpus=1), at.desk("b")
    (own,) = at.beat(healthy).claimed  # so that both are there, and one is free
    at.submit(attempts_max=1)
    (job,) = at.beat(broken).claimed
    at.end(broken, job, GaveBack("the store is away", costs=False, away=1))
    assert at.job("job-2").worker == ""
    at.now += 4.1
    assert at.beat(broken).claimed == []
    (job,) = at.beat(healthy, held(own)).claimed
    at.end(healthy, job, GaveBack("gave its place", costs=False))
    assert [job.id for job in at.beat(broken).claimed] == ["job-2"]


def test_a_worker_that_claims_nothing_gets_nothing_placed_on_it(at):
    full, other = at.desk("a"), at.desk("b")
    asyncio.run(full.beat((), "takes no jobs: its disk is full", claims=False))
    at.submit()
    states = {one.name: one for one in asyncio.run(at.queue.workers())}
    assert (states["a"].cpus, states["a"].cpus_free) == (0, 0)
    assert states["a"].kept_apart_by == "takes no jobs: its disk is full"
    assert [job.id for job in at.beat(other).claimed] == ["job-1"]
    asyncio.run(other.beat((), "", claims=False))
    at.submit()
    assert "no worker takes jobs now" in at.job("job-2").why


def begun(job, at, **more):
    run = Run(id=job.id, code_version="1", machine="m", started_at=at.now, **more)
    return held(job, Notes(run=run))


def test_a_later_attempt_keeps_what_the_first_was_told_and_what_was_measured(at):
    at.submit(attempts_max=2)
    desk = at.desk()
    (job,) = at.beat(desk).claimed
    at.beat(desk, begun(job, at, parameters={"epochs": 3}))
    at.beat(desk, held(job, Notes(figures={"loss": 0.5, "accuracy": 0.8})))
    at.end(desk, job, GaveBack("it crashed", costs=True))
    at.now += 5
    (job,) = at.beat(desk).claimed
    at.beat(desk, begun(job, at, parameters={"epochs": 3, "resumed": True}))
    at.beat(desk, held(job, Notes(figures={"loss": 0.4})))
    run = asyncio.run(at.tracking.run("job-1"))
    assert (run.parameters, run.started_at) == ({"epochs": 3}, 1000.0)
    assert run.figures == {"loss": 0.4, "accuracy": 0.8}
    assert run.ended_at is None


def test_a_run_ends_with_its_job_however_that_ends(at):
    """Given up since its worker vanished; cancelled while it waits for another attempt; done."""
    for _ in range(3):
        at.submit(attempts_max=1)
    desk = at.desk()
    vanished, waits, done = at.beat(desk).claimed
    at.beat(desk, *(begun(one, at, parameters={}) for one in (vanished, waits, done)))
    at.end(desk, waits, GaveBack("its worker was told to end", costs=False))
    asyncio.run(at.queue.cancel(waits.id, "", "ann"))
    at.end(desk, done, Done("n@1.0.0", "a" * 64))
    at.now += 60
    asyncio.run(at.queue.sweep())
    for job, ended_at in ((vanished, 1060.0), (waits, 1000.0), (done, 1000.0)):
        assert at.job(job.id).ended_at == ended_at
        assert asyncio.run(at.tracking.run(job.id)).ended_at == ended_at


@pytest.mark.parametrize(
    "ended",
    [
        Broke("a\0b\udcff"),
        GaveBack("a\0b\udcff", costs=True),
        GaveBack("a\0b\udcff", costs=False, away=1),
        Done("n@1.0.0", "0" * 64, words="a\0b\udcff"),
    ],
    ids=["broke", "crashed", "away", "done"],
)
def test_what_no_database_takes_is_replaced_in_the_words_of_an_end(at, ended):
    at.submit()
    desk = at.desk()
    (job,) = at.beat(desk).claimed
    assert at.end(desk, job, ended) is not None
    assert at.job("job-1").why.startswith("a\ufffdb\ufffd")


def test_a_worker_that_drains_or_is_gone_gets_no_jobs_and_is_listed_as_it_was_seen(at):
    at.submit(cpus=4)
    drains, other = at.desk("a"), at.desk("b")
    asyncio.run(drains.begin("nothing"))
    assert at.beat(drains, claims=False).claimed == []
    (job,) = at.beat(other).claimed
    at.end(other, job, Broke("no"))
    asyncio.run(drains.gone())
    (gone, _) = asyncio.run(at.queue.workers())
    assert (gone.name, gone.seen_at, gone.cpus, gone.cpus_free) == ("a", 1000.0, 0, 0)
    asyncio.run(other.gone())
    at.submit()
    assert "no worker is there" in at.job("job-2").why
    asyncio.run(at.desk("a", token="another process").begin("nothing"))
    with pytest.raises(InUse, match="another train-worker of this name"):
        asyncio.run(at.desk("a", token="a third").begin("nothing"))


def test_what_would_fail_again_fails_at_once(at):
    at.submit()
    desk = at.desk()
    (job,) = at.beat(desk).claimed
    at.end(desk, job, Broke("nan_loss at step 3"))
    assert at.job("job-1").why == "nan_loss at step 3"


def test_a_preempted_job_waits_from_then_on_and_is_not_charged(at):
    at.submit(cpus=4, priority=1)
    desk = at.desk()
    (low,) = at.beat(desk).claimed
    at.submit(cpus=4, priority=9)
    at.beat(desk, held(low))
    assert at.beat(desk, held(low)).stops == {"job-1": "preempt"}
    at.end(desk, low, GaveBack("gave its place", costs=False))
    assert [job.id for job in at.beat(desk).claimed] == ["job-2"]
    waits = at.job("job-1")
    assert (waits.state, waits.attempts, waits.preemptions, waits.place) == (
        JobState.QUEUED, 0, 1, 1,
    )  # fmt: skip
    assert "gave its place" in waits.why
    assert "no worker has 4 CPUs free" in waits.why


def test_cancelling(at):
    for _ in range(2):
        at.submit()
    desk = at.desk(cpus=1)
    (job,) = at.beat(desk).claimed
    queue = at.queue
    assert asyncio.run(queue.cancel("job-2", "", "ann")).state is JobState.CANCELLED
    assert asyncio.run(queue.cancel("job-2", "", "ann")).state is JobState.CANCELLED
    assert asyncio.run(queue.cancel("job-1", "why", "ann")).state is JobState.STOPPING
    assert at.beat(desk, held(job)).stops == {"job-1": "cancel"}
    at.now += 11.0  # and its worker vanishes
    asyncio.run(queue.sweep())
    assert at.job("job-1").why == "cancelled by ann: why"
    at.submit()
    (job,) = at.beat(desk).claimed
    at.end(desk, job, Done("n@1.0.0", "a" * 64))
    with pytest.raises(Conflict, match="is done already"):
        asyncio.run(queue.cancel("job-3", "", "ann"))
    with pytest.raises(Unknown, match="no job job-9"):
        asyncio.run(queue.cancel("job-9", "", "ann"))


def test_the_same_key_is_the_same_job_and_another_job_is_refused(at):
    assert at.submit("k").id == at.submit("k").id == "job-1"
    with pytest.raises(Conflict, match="was another job's, job-1"):
        at.submit("k", cpus=2)


def test_too_many_that_wait_are_refused(at):
    asyncio.run(at.queue.set_quota(Quota(team="small", cpus_max=2, queued_max=1)))
    at.submit(team="small")
    with pytest.raises(Overloaded, match="1 jobs of team small wait, of at most 1"):
        at.submit(team="small")
    for _ in range(7):
        at.submit()
    with pytest.raises(Overloaded, match="8 of all, of at most 8"):
        at.submit()
    with pytest.raises(Conflict, match="would never begin"):
        at.submit(team="small", cpus=3)


def test_quotas_are_bounded_and_kept_to(at):
    queue = at.queue
    for team in ("a", "b"):
        asyncio.run(queue.set_quota(Quota(team=team, cpus_max=1)))
    with pytest.raises(Overloaded, match="2 teams have a quota"):
        asyncio.run(queue.set_quota(Quota(team="c", cpus_max=1)))
    for _ in range(2):
        at.submit(team="a")
    assert len(at.beat(at.desk()).claimed) == 1
    assert "uses 1 of its 1 CPUs" in at.job("job-2").why
    asyncio.run(queue.remove_quota("b"))
    with pytest.raises(Unknown):
        asyncio.run(queue.remove_quota("b"))


def test_a_priority_changes_the_place(at):
    at.submit()
    at.submit()
    assert at.job("job-2").place == 2
    moved = asyncio.run(at.queue.set_priority("job-2", 9))
    assert (moved.place, moved.spec.priority) == (1, 9)


def test_two_workers_of_one_name_are_told_apart_until_the_first_is_gone(at):
    one, other = at.desk(token="1"), at.desk(token="2")
    at.beat(one)
    with pytest.raises(InUse, match="another train-worker of this name"):
        at.beat(other)
    asyncio.run(one.gone())
    at.beat(other)


def test_a_checkpoint_that_another_job_has_too_is_kept_when_the_first_has_a_newer_one(at):
    for _ in range(2):
        at.submit()
    desk = at.desk()
    one, other = at.beat(desk).claimed

    def keep(job, sha256):
        return asyncio.run(desk.keep_checkpoint(job, sha256, "1.ckpt"))

    assert keep(one, "a" * 64) is None
    assert keep(other, "a" * 64) is None
    assert keep(one, "a" * 64) is None
    assert keep(one, "b" * 64) is None  # the other one would go on from it
    assert keep(other, "b" * 64) == "a" * 64


def test_points_and_lines_are_bounded_and_a_step_done_again_is_one_point(at):
    at.submit()
    desk = at.desk()
    (job,) = at.beat(desk).claimed
    notes = Notes()
    for step in range(40):
        notes.measured(step, {"loss": float(step)}, at.now)
        notes.said(f"line {step}", at.now)
    at.beat(desk, held(job, notes))
    again = Notes(points=[Point(metric="loss", step=39, value=7.0, at=at.now)])
    at.beat(desk, held(job, again))
    points = asyncio.run(at.tracking.points("job-1", "loss"))
    assert [one.step for one in points] == [3, 7, 11, 15, 19, 23, 27, 31, 35, 39]
    assert points[-1].value == 7.0
    lines = asyncio.run(at.tracking.logs("job-1"))
    assert [one.text for one in lines] == [f"line {n}" for n in range(24, 40)]
    assert asyncio.run(at.tracking.logs("job-1", after=lines[-2].seq)) == lines[-1:]


def test_pages_of_points_are_of_whole_steps(at):
    at.submit()
    desk = at.desk()
    (job,) = at.beat(desk).claimed
    notes = Notes()
    for step in range(4):
        notes.measured(step, {"a": 0.0, "b": 0.0}, at.now)
    at.beat(desk, held(job, notes))
    first = asyncio.run(at.tracking.points("job-1", limit=3))
    assert [one.step for one in first] == [0, 0, 1, 1]
    rest = asyncio.run(at.tracking.points("job-1", after=1))
    assert [one.step for one in rest] == [2, 2, 3, 3]


def test_pages_of_jobs(at):
    for _ in range(5):
        at.submit()
    first = asyncio.run(at.queue.jobs(limit=2))
    assert ([one.id for one in first.jobs], first.next) == (["job-5", "job-4"], "job-4")
    rest = asyncio.run(at.queue.jobs(after="job-4", limit=10))
    assert ([one.id for one in rest.jobs], rest.next) == (["job-3", "job-2", "job-1"], None)
    assert asyncio.run(at.queue.jobs(state=JobState.DONE)).jobs == ()


def test_old_jobs_are_forgotten_with_files_that_nothing_else_names(at):
    desk = at.desk()
    shared, own = (
        Artifact(name="s", sha256="b" * 64, bytes=1),
        Artifact(name="o", sha256="c" * 64, bytes=1),
    )
    for one in (shared, own):
        at.blobs.put(one.sha256, b"x")
    for artifacts in ([shared, own], [shared]):
        at.submit()
        (job,) = at.beat(desk).claimed
        asyncio.run(desk.end(held(job), Done("n@1.0.0", "b" * 64), artifacts))
        at.now += 600.0
    asyncio.run(at.queue.sweep())
    with pytest.raises(Unknown, match="forgotten"):
        at.job("job-1")
    assert at.blobs.stat(own.sha256) is None
    assert at.blobs.stat(shared.sha256) is not None


def test_only_so_many_ended_jobs_are_kept(at):
    for _ in range(5):
        at.submit()
    for name in range(1, 6):
        asyncio.run(at.queue.cancel(f"job-{name}", "", "ann"))
        at.now += 1
    asyncio.run(at.queue.sweep())
    assert [one.id for one in asyncio.run(at.queue.jobs()).jobs] == ["job-5", "job-4", "job-3"]


def test_the_migrations_make_the_tables_of_the_schema(at):
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    from cloud.training.store.schema import metadata

    def look(connection):
        context = MigrationContext.configure(
            connection,
            opts={"include_name": lambda name, kind, _: kind != "table" or name in metadata.tables},
        )
        return compare_metadata(context, metadata)

    assert at.database.read(look) == []


def test_a_database_that_hangs_holds_no_owner_up(postgres, monkeypatch, caplog):
    monkeypatch.setattr("cloud.store.owning._LET_GO_S", 0.5)
    database = LearningDatabase(postgres.new_database())
    database.open()
    held_by = text("SELECT pid FROM pg_locks WHERE locktype = 'advisory'")
    began = time.monotonic()
    with database.owned():
        pid = database.read(lambda connection: connection.execute(held_by).scalar_one())
        os.kill(pid, signal.SIGSTOP)
    took_s = time.monotonic() - began
    os.kill(pid, signal.SIGCONT)
    (unlocking,) = [one for one in threading.enumerate() if one.name == "unlock"]
    unlocking.join(60)
    assert took_s < 30
    assert [one.getMessage() for one in caplog.records] == ["lock_not_let_go"]
    with database.owned():
        pass
    database.close()


def test_one_process_drives_the_loops_of_a_database_and_workers_do_not_ask(at):
    other = LearningDatabase(at.database._engine.url.render_as_string(hide_password=False))
    with at.database.owned():
        with pytest.raises(InUse, match="another learning process"), other.owned():
            pass
        other.open()
        at.submit()
    with other.owned():
        pass
    other.close()


def test_what_is_in_the_way_of_sweeps_is_said_once_and_that_it_is_over(
    tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr("cloud.training.queue.queue._SWEEP_S", 0.01)
    caplog.set_level("INFO")
    ahead_s = 1000.0
    database = LearningDatabase(f"sqlite:///{tmp_path / 'learning.db'}")
    blobs = FolderBlobs(tmp_path / "artifacts")
    queue = JobQueue(database, Training(), blobs, lambda: time.time() + ahead_s)

    async def said():
        return [one.getMessage() for one in caplog.records if one.name.startswith("cloud.training")]

    async def go():
        nonlocal ahead_s
        running = asyncio.create_task(queue.run())
        await until(said, lambda found: len(found) == 1)
        ahead_s = 0.0
        await until(said, lambda found: len(found) == 2)  # there are no tables yet
        database.open()
        found = await until(said, lambda found: len(found) > 2)
        running.cancel()
        await asyncio.wait([running])
        return found

    assert asyncio.run(go()) == [
        "training_sweep_failed", "training_sweep_failed", "training_sweeps_again",
    ]  # fmt: skip
    database.close()
