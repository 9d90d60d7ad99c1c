"""One process's work, by virtual time: attempts, pauses, ends, and what is counted."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cloud.jobs.database import JobDatabase
from cloud.jobs.record import Claimed, JobId
from cloud.jobs.results import remove
from cloud.jobs.runner import JobRunner
from cloud.jobs.settings import JobSettings
from shared.errors import Malformed, NotTrusted, Overloaded, Unavailable
from simulations import virtual_time
from tests.cloud.jobs.sample import (
    CALLER,
    Echo,
    answer_to,
    count,
    counts,
    do,
    inline,
    job,
    opened,
    put,
    rules,
    seen,
    url_in,
)  # fmt: skip

START = 1_000_000.0


class Scene:
    """A runner on a database, on the virtual clock; jobs 1..n are in it from the start."""

    def __init__(
        self, database: JobDatabase, answering: Echo, with_: JobSettings, jobs: int
    ) -> None:
        self.database, self.answering, self.counts = database, answering, counts()
        self.told: list[JobId] = []
        for n in range(1, jobs + 1):
            put(database, job(n), START, with_)
        self.runner = JobRunner(
            inline(database), answering, with_, self.counts, on_ended=self.told.extend,
            wall=self.wall, now=lambda: asyncio.get_running_loop().time(), rng=Random(1),
        )  # fmt: skip

    def wall(self) -> float:
        return START + asyncio.get_running_loop().time()

    def state(self, n: int = 1) -> str:
        return seen(self.database, n).view.state

    async def after(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def play(
    folder: Path,
    script: Callable[[Scene], Awaitable[None]],
    before: Callable[[Claimed], Awaitable[None]] | None = None,
    *,
    jobs: int = 1,
    **over: Any,
) -> Scene:
    """Run a scene in virtual time, and the runner until it is drained."""
    with opened(url_in(folder)) as database:

        async def main() -> Scene:
            scene = Scene(database, Echo(before), rules(**over), jobs)
            async with asyncio.TaskGroup() as tasks:
                running = tasks.create_task(scene.runner.run())
                await script(scene)
                scene.runner.drain()
                await running
            return scene

        return virtual_time.run(main())


def failing(error: Exception, times: int = 10**9) -> Callable[[Claimed], Awaitable[None]]:
    left = times

    async def before(_: Claimed) -> None:
        nonlocal left
        left -= 1
        if left >= 0:
            raise error

    return before


def test_what_waits_is_answered_and_whoever_waits_is_told(tmp_path: Path) -> None:
    async def script(scene: Scene) -> None:
        await scene.after(0.5)
        assert [scene.state(n) for n in (1, 2, 3)] == ["done"] * 3
        assert seen(scene.database, 2).answer == answer_to(job(2).body)

    scene = play(tmp_path, script, jobs=3)
    assert sorted(scene.told) == [job(n).id for n in (1, 2, 3)]
    assert count(scene.counts, "done") == 3


def test_a_job_that_is_accepted_here_starts_at_once(tmp_path: Path) -> None:
    async def script(scene: Scene) -> None:
        await scene.after(0.1)
        put(scene.database, job(9), scene.wall())
        scene.runner.wake()
        await scene.after(0.01)
        assert scene.state(9) == "done"

    play(tmp_path, script, look_s=60, jobs=0)


def test_a_place_that_is_free_again_is_taken_at_once(tmp_path: Path) -> None:
    async def script(scene: Scene) -> None:
        await scene.after(0.01)
        assert [scene.state(n) for n in (1, 2, 3)] == ["done"] * 3

    play(tmp_path, script, jobs=3, in_hand_max=1, look_s=60)


def test_another_process_job_is_seen_within_a_look(tmp_path: Path) -> None:
    async def script(scene: Scene) -> None:
        await scene.after(0.1)
        put(scene.database, job(9), scene.wall())
        await scene.after(2.1)
        assert scene.state(9) == "done"

    play(tmp_path, script, look_s=2, jobs=0)


def test_no_more_are_in_hand_than_may_be(tmp_path: Path) -> None:
    most = 0

    async def slow(_: Claimed) -> None:
        nonlocal most
        most = max(most, scenes[0].runner.in_hand)
        await asyncio.sleep(1)

    scenes: list[Scene] = []

    async def script(scene: Scene) -> None:
        scenes.append(scene)
        await scene.after(10)
        assert all(scene.state(n) == "done" for n in range(1, 21))

    play(tmp_path, script, slow, jobs=20, in_hand_max=4)
    assert most == 4


def test_what_is_in_hand_is_bounded_in_bytes_and_a_bigger_one_runs_alone(tmp_path: Path) -> None:
    most, bodies = 0, dict[int, int]()

    async def slow(held: Claimed) -> None:
        nonlocal most
        bodies[held.seq] = len(held.body)
        most = max(most, sum(bodies.values()))
        await asyncio.sleep(1)
        del bodies[held.seq]

    async def script(scene: Scene) -> None:
        for n in range(1, 9):
            put(scene.database, job(n, body=b" " * 20_000), scene.wall())
        put(scene.database, job(9, body=b" " * 500_000), scene.wall() + 0.001)
        await scene.after(3.9)
        assert most <= 100_000
        await scene.after(5)
        assert [scene.state(n) for n in range(1, 10)] == ["done"] * 9

    play(tmp_path, script, slow, jobs=0, in_hand_bytes_max=100_000, look_s=0.1)
    assert most == 500_000  # alone


def test_unavailable_is_tried_again_with_growing_pauses_and_other_errors_are_not(
    tmp_path: Path,
) -> None:
    at: list[float] = []

    async def before(_: Claimed) -> None:
        at.append(asyncio.get_running_loop().time())
        if len(at) < 6:
            raise Unavailable("not now")

    async def script(scene: Scene) -> None:
        await scene.after(200)
        assert scene.state() == "done"

    scene = play(tmp_path, script, before, backoff_s_min=10, backoff_s_max=40)
    pauses = [later - earlier for earlier, later in pairwise(at)]
    assert all(
        pause <= bound + 1 for pause, bound in zip(pauses, (10, 20, 40, 40, 40), strict=True)
    )
    assert sum(pauses) > 20
    assert count(scene.counts, "retried", why="unavailable") == 5


def test_the_other_ends_retry_after_is_kept(tmp_path: Path) -> None:
    error = Overloaded("full")
    error.retry_after_s = 100.0

    async def script(scene: Scene) -> None:
        await scene.after(99)
        assert len(scene.answering.asked) == 1
        await scene.after(30)
        assert scene.state() == "done"

    play(tmp_path, script, failing(error, 1), backoff_s_min=10)


def test_attempts_are_bounded(tmp_path: Path) -> None:
    async def script(scene: Scene) -> None:
        await scene.after(60)
        assert scene.state() == "failed"
        assert len(scene.answering.asked) == 5

    scene = play(tmp_path, script, failing(Unavailable("never")), attempts_max=5)
    assert count(scene.counts, "given_up", reason="unavailable") == 1


def test_an_attempt_that_takes_too_long_is_one_that_failed(tmp_path: Path) -> None:
    async def hangs(_: Claimed) -> None:
        await asyncio.sleep(1e6)

    async def script(scene: Scene) -> None:
        await scene.after(60)
        failure = seen(scene.database).view.failure
        assert failure is not None
        assert (failure.reason, failure.error) == ("unavailable", "DeadlineMissed")

    play(tmp_path, script, hangs, attempts_max=2)


@pytest.mark.parametrize(
    ("error", "reason", "kind"),
    [
        (Malformed("no"), "refused", "Malformed"),
        (NotTrusted("no"), "refused", "NotTrusted"),
        (ZeroDivisionError("a bug"), "fault", "HybridgeError"),
    ],
)
def test_what_another_attempt_would_not_change_ends_a_job(
    tmp_path: Path, error: Exception, reason: str, kind: str
) -> None:
    async def script(scene: Scene) -> None:
        await scene.after(100)
        assert len(scene.answering.asked) == 1
        failure = seen(scene.database).view.failure
        assert failure is not None
        assert (failure.reason, failure.error) == (reason, kind)
        assert "a bug" not in failure.detail

    scene = play(tmp_path, script, failing(error))
    assert count(scene.counts, "given_up", reason=reason) == 1


def test_a_drain_finishes_what_is_in_hand_and_takes_nothing_more(tmp_path: Path) -> None:
    async def slow(_: Claimed) -> None:
        await asyncio.sleep(5)

    async def script(scene: Scene) -> None:
        await scene.after(1)

    scene = play(tmp_path, script, slow, jobs=3, in_hand_max=2)
    assert len(scene.answering.asked) == 2
    with opened(url_in(tmp_path)) as database:
        assert [seen(database, n).view.state for n in (1, 2, 3)] == ["done", "done", "queued"]


def test_a_result_is_kept_in_hand_while_the_database_is_away(
    tmp_path: Path,
) -> None:
    """The real database, whose file another program holds for a while."""
    locks = sqlite3.connect(tmp_path / "jobs.db", isolation_level=None, check_same_thread=False)

    async def lock(_: Claimed) -> None:
        locks.execute("BEGIN IMMEDIATE")

    async def script(scene: Scene) -> None:
        with scene.database._engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA busy_timeout=1")
        await scene.after(20)
        assert scene.runner.in_hand == 1
        locks.execute("ROLLBACK")
        await scene.after(10)
        assert scene.state() == "done"
        assert len(scene.answering.asked) == 1

    scene = play(tmp_path, script, lock)
    locks.close()
    assert count(scene.counts, "retried", why="store") > 1


def test_the_result_of_a_job_that_was_cancelled_meanwhile_is_thrown_away(tmp_path: Path) -> None:
    async def slow(_: Claimed) -> None:
        await asyncio.sleep(5)

    async def script(scene: Scene) -> None:
        await scene.after(1)
        do(scene.database, lambda t: remove(t, CALLER, job(1).id, rules(), scene.wall()))
        await scene.after(10)
        assert scene.state() == "cancelled"

    scene = play(tmp_path, script, slow)
    assert count(scene.counts, "retried", why="late") == 1
    assert (count(scene.counts, "done"), scene.told) == (0, [])


def test_what_expires_is_swept_counted_and_told(tmp_path: Path) -> None:
    async def script(scene: Scene) -> None:
        await scene.after(200)
        assert scene.state() == "expired"

    scene = play(tmp_path, script, failing(Unavailable("never")), expiry_s=100)
    assert count(scene.counts, "given_up", reason="expired") == 1
    assert scene.told == [job(1).id]


def test_the_deadline_is_the_attempts_or_what_is_left_of_the_job(tmp_path: Path) -> None:
    deadlines: list[float] = []

    class Noting(Echo):
        async def answer(self, job, deadline):
            deadlines.append(deadline - asyncio.get_running_loop().time())
            return await super().answer(job, deadline)

    with opened(url_in(tmp_path)) as database:

        async def main() -> None:
            scene = Scene(database, Noting(), rules(), 1)
            put(database, job(2, within_s=7.0), START)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(scene.runner.run())
                await scene.after(0.1)
                scene.runner.drain()

        virtual_time.run(main())
    assert deadlines == [20.0, 7.0]
