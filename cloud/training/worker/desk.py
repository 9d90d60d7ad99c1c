"""A worker at the learning database: one short transaction a beat, for all of its jobs."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from sqlalchemy import Connection

from cloud.training.documents import Artifact, JobState
from cloud.training.queue.ending import Ended
from cloud.training.queue.parties import level
from cloud.training.queue.placing import decide
from cloud.training.queue.settings import Training
from cloud.training.store import claim_rows, job_rows, place_rows, run_rows
from cloud.training.store.claim_rows import Claimed
from cloud.training.store.clock import check_clock
from cloud.training.store.database import LearningDatabase
from cloud.training.worker.notes import Notes

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Held:
    """A job under way, and what it said since the last beat."""

    job: Claimed
    notes: Notes
    worked_s: float
    progress: float


@dataclass(slots=True)
class Answer:
    stops: dict[str, str] = field(default_factory=dict)
    """By job: cancel or preempt."""
    lost: list[str] = field(default_factory=list)
    """Jobs that are ours no more."""
    claimed: list[Claimed] = field(default_factory=list)


class Desk:
    """Everything raises `Unavailable` while the database is away; `begin` and `beat` also while this
    machine's clock is too far from the database's.
    """

    def __init__(
        self,
        database: LearningDatabase,
        settings: Training,
        name: str,
        token: str,
        cpus: int,
        now: Callable[[], float],
    ) -> None:
        """`token`: of this process, so that two of one name are told apart."""
        self._database, self._settings = database, settings
        self._name, self._token, self._cpus, self._now = name, token, cpus, now
        self.turn = asyncio.Lock()
        """Of whoever takes what a job said, until it is stored: after a job's end nothing of it is."""

    async def begin(self, apart: str) -> None:
        """Say that it lives. What a process before it had under this name is nobody's any more.

        Raises `InUse` where a worker of another folder has the name.
        """

        def change(connection: Connection) -> None:
            settings = self._settings
            check_clock(connection, self._now, settings.clock_off_s)
            now = self._now()
            place_rows.seen(
                connection, self._name, self._token, self._cpus, apart, now, settings.lease_s
            )
            claim_rows.let_go(connection, self._name, now)
            claim_rows.take_over(connection, settings, now)

        await self._write(change)

    async def beat(self, held: Sequence[Held], apart: str, *, claims: bool) -> Answer:
        """Renew, store, give back what is ours and not in `held`, and take what is ours to begin. Raises
        `InUse` where another one has the name.

        Who claims nothing has no CPUs to give: else jobs would be placed here, and wait for it.
        """
        return await self._write(lambda connection: self._beat(connection, held, apart, claims))

    async def end(
        self, held: Held, ended: Ended, artifacts: Sequence[Artifact] = ()
    ) -> JobState | None:
        """What came of a job, with all that it said, and its state then; None where it is ours no more."""

        def change(connection: Connection) -> JobState | None:
            now = self._now()
            if claim_rows.renew(
                connection, held.job, now, self._settings.lease_s, _progress(held)
            ) is None:  # fmt: skip
                return None
            self._store(connection, held)
            run_rows.add_artifacts(connection, held.job.id, artifacts)
            return claim_rows.end(connection, held.job, ended, self._settings, now)

        return await self._write(change)

    async def keep_checkpoint(self, job: Claimed, sha256: str, name: str) -> str | None:
        """The hash of the one before, which nothing needs any more."""
        return await self._write(
            lambda connection: claim_rows.keep_checkpoint(connection, job, sha256, name)
        )

    async def gone(self) -> None:
        """This worker ends, and holds nothing."""

        def change(connection: Connection) -> None:
            if place_rows.gone(connection, self._name, self._token):
                claim_rows.give_back(connection, self._name, (), self._settings, self._now())

        await self._write(change)

    def _beat(
        self, connection: Connection, held: Sequence[Held], apart: str, claims: bool
    ) -> Answer:
        settings, answer = self._settings, Answer()
        check_clock(connection, self._now, settings.clock_off_s)
        now = self._now()
        cpus = self._cpus if claims else 0
        place_rows.seen(connection, self._name, self._token, cpus, apart, now, settings.lease_s)
        for one in held:
            stop = claim_rows.renew(connection, one.job, now, settings.lease_s, _progress(one))
            if stop is None:
                answer.lost.append(one.job.id)
                continue
            if stop:
                answer.stops[one.job.id] = stop
            self._store(connection, one)
        owners = [one.job.owner for one in held]
        claim_rows.give_back(connection, self._name, owners, settings, now)
        claim_rows.take_over(connection, settings, now)
        if claims:
            answer.claimed = self._claim(connection, now)
        return answer

    def _claim(self, connection: Connection, now: float) -> list[Claimed]:
        settings = self._settings
        decision = decide(connection, settings, now)
        for stopped in decision.preemptions:
            claim_rows.stop(
                connection,
                stopped.job,
                "preempt",
                f"gives its place to {stopped.by}, which goes first",
            )
        mine = {start.job for start in decision.starts if start.worker == self._name}
        waiting = {job.id: job for job in job_rows.waiting(connection, now) if job.id in mine}
        claimed = []
        for job_id in sorted(waiting):
            job = waiting[job_id]
            counts = level(job.priority, now - job.since, settings.aging_s)
            got = claim_rows.claim(
                connection, job_id, self._name, counts, now, settings.lease_s
            )  # fmt: skip
            if got is not None:
                claimed.append(got)
        return claimed

    def _store(self, connection: Connection, one: Held) -> None:
        job, notes, settings = one.job.id, one.notes, self._settings
        if notes.run is not None:
            run_rows.begin(connection, notes.run)
        run_rows.add_points(connection, job, notes.points, settings.points_max)
        run_rows.add_logs(connection, job, notes.lines, settings.log_lines_max)
        run_rows.update_figures(connection, job, notes.figures)

    async def _write(self, change: Callable[[Connection], T]) -> T:
        return await asyncio.to_thread(self._database.write, change)


def _progress(one: Held) -> dict[str, object]:
    return {"worked_s": one.worked_s, "progress": one.progress}
