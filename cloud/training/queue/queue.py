"""The queue as those see it who hand in jobs: submit, look, cancel, and who may have how much."""

import asyncio
import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Row

from cloud.registry.artifacts.blobs import Blobs
from cloud.training.documents import Job, JobSpec, JobState, Quota, WorkerState
from cloud.training.queue.placing import decide
from cloud.training.queue.settings import Training
from cloud.training.store import claim_rows, job_rows, place_rows, run_rows
from cloud.training.store.clock import check_clock
from cloud.training.store.database import LearningDatabase
from shared.errors import Conflict, HybridgeError, Overloaded, Unknown

T = TypeVar("T")
log = logging.getLogger(__name__)
_SWEEP_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class JobPage:
    """The newest first."""

    jobs: tuple[Job, ...]
    next: str | None
    """`after` of the next page; None: this is the last."""


class JobQueue:
    """Thread-safe. Everything raises `Unavailable` while the database is away."""

    def __init__(
        self,
        database: LearningDatabase,
        settings: Training,
        blobs: Blobs,
        now: Callable[[], float],
        new_id: Callable[[JobSpec], str] | None = None,
    ) -> None:
        """`now` gives Unix seconds. `new_id`: None takes the recipe's kind and a random tail."""
        self._database, self._settings, self._blobs, self._now = database, settings, blobs, now
        self._new_id = new_id or _new_id

    async def submit(self, spec: JobSpec, actor: str, key: str | None = None) -> Job:
        """`key`: the same one and the same job a second time changes nothing, and gives the first.

        Raises `Conflict` for a key of another job, `Overloaded` where too many wait.
        """
        return await self._write(lambda connection: self._submit(connection, spec, actor, key))

    async def job(self, job_id: str) -> Job:
        """Raises `Unknown`."""
        return await self._read(lambda connection: self._known(connection, job_id))

    async def jobs(
        self,
        state: JobState | None = None,
        team: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> JobPage:
        """Raises `Unknown` for an `after` that is not here any more."""

        def look(connection: Connection) -> JobPage:
            seq = None if after is None else self._row(connection, after).seq
            named = None if state is None else state.value
            rows = job_rows.page(connection, named, team, seq, limit + 1)
            shown = rows[:limit]
            jobs = self._jobs(connection, shown)
            return JobPage(jobs, shown[-1].id if len(rows) > limit else None)

        return await self._read(look)

    async def cancel(self, job_id: str, comment: str, actor: str) -> Job:
        """At once where it waits; a running one writes a checkpoint and ends. A second time changes
        nothing. Raises `Unknown`, `Conflict` where it has ended otherwise.
        """

        def change(connection: Connection) -> Job:
            found = self._row(connection, job_id)
            why = f"cancelled by {actor}" + (f": {comment}" if comment else "")
            why = why[: job_rows.WHY_MAX]
            match JobState(found.state):
                case JobState.QUEUED:
                    job_rows.change(connection, job_id, {
                        "state": "cancelled", "ended_at": self._now(), "why": why, "stop": "",
                    })  # fmt: skip
                case JobState.RUNNING | JobState.STOPPING:
                    claim_rows.stop(connection, job_id, "cancel", why)
                case JobState.DONE | JobState.FAILED:
                    raise Conflict(
                        f"job {job_id} is {found.state} already; nothing is left to cancel"
                    )
                case JobState.CANCELLED:
                    pass
            return self._known(connection, job_id)

        return await self._write(change)

    async def set_priority(self, job_id: str, priority: int) -> Job:
        """Of a job that has not ended. Raises `Unknown`, `Conflict`."""

        def change(connection: Connection) -> Job:
            found = self._row(connection, job_id)
            if found.ended_at is not None:
                raise Conflict(f"job {job_id} is {found.state}; its priority is of no use any more")
            job_rows.change(connection, job_id, {"priority": priority})
            return self._known(connection, job_id)

        return await self._write(change)

    async def workers(self) -> tuple[WorkerState, ...]:
        def look(connection: Connection) -> tuple[WorkerState, ...]:
            held = job_rows.held(connection)
            return tuple(
                WorkerState(
                    name=name, cpus=cpus, seen_at=seen_at, kept_apart_by=apart,
                    cpus_free=max(0, cpus - sum(taken for _, taken in held.get(name, ()))),
                    jobs=tuple(job for job, _ in held.get(name, ())),
                )
                for name, cpus, seen_at, apart in place_rows.workers(connection)
            )  # fmt: skip

        return await self._read(look)

    async def counts(self) -> dict[str, int]:
        """Jobs by state."""
        return await self._read(job_rows.state_counts)

    async def quotas(self) -> list[Quota]:
        return await self._read(place_rows.quotas)

    async def set_quota(self, quota: Quota) -> Quota:
        """Running jobs that are over it run on. Raises `Overloaded`."""

        def change(connection: Connection) -> Quota:
            is_new = place_rows.quota(connection, quota.team) is None
            if is_new and place_rows.quotas_count(connection) >= self._settings.quotas_max:
                raise Overloaded(
                    f"{self._settings.quotas_max} teams have a quota, as many as may "
                    "(training.quotas_max); remove one first"
                )
            place_rows.put_quota(connection, quota)
            return quota

        return await self._write(change)

    async def remove_quota(self, team: str) -> None:
        """Raises `Unknown`."""
        if not await self._write(lambda connection: place_rows.remove_quota(connection, team)):
            raise Unknown(f"team {team} has no quota of its own")

    async def sweep(self) -> None:
        """Take jobs from workers that vanished, and forget what is old, with its files. Raises
        `Unavailable` also while this machine's clock is too far from the database's.
        """

        def change(connection: Connection) -> tuple[list[str], list[str]]:
            settings = self._settings
            check_clock(connection, self._now, settings.clock_off_s)
            now = self._now()
            lost = claim_rows.take_over(connection, settings, now)
            place_rows.forget_workers(connection, now - settings.workers_kept_s)
            files = job_rows.forget(connection, now - settings.kept_s, settings.kept_max)
            return lost, files + job_rows.drop_checkpoints(connection)

        lost, files = await self._write(change)
        for job_id in lost:
            log.warning("training_worker_vanished", extra={"job": job_id})
        for sha256 in files:
            await asyncio.to_thread(self._blobs.remove, sha256)

    async def run(self) -> None:
        """Sweep until cancelled. What is in its way is said once, and again when another thing is or nothing
        any more.
        """
        said: type[HybridgeError] | None = None
        while True:
            try:
                await self.sweep()
                if said is not None:
                    log.info("training_sweeps_again")
                said = None
            except HybridgeError as error:
                if said is not type(error):
                    log.warning("training_sweep_failed", extra={"why": str(error)[:300]})
                said = type(error)
            await asyncio.sleep(_SWEEP_S)

    def _submit(self, connection: Connection, spec: JobSpec, actor: str, key: str | None) -> Job:
        if key is not None and (there := job_rows.of_key(connection, actor, key)) is not None:
            if JobSpec.model_validate_json(there.spec) != spec:
                raise Conflict(
                    f"Idempotency-Key {key[:80]!r} was another job's, {there.id}; take a new key for "
                    "a new job"
                )
            return self._jobs(connection, [there])[0]
        quota = place_rows.quota(connection, spec.team) or self._settings.quota_of(spec.team)
        if spec.cpus > quota.cpus_max:
            raise Conflict(
                f"cpus {spec.cpus}: team {spec.team} may have {quota.cpus_max} at once, so it would "
                "never begin; ask for less, or have the quota raised"
            )
        of_team, of_all = job_rows.queued_counts(connection, spec.team)
        if of_team >= quota.queued_max or of_all >= self._settings.queued_max:
            raise Overloaded(
                f"{of_team} jobs of team {spec.team} wait, of at most {quota.queued_max}, and "
                f"{of_all} of all, of at most {self._settings.queued_max}; cancel some, or come again "
                "when some have begun"
            )
        job_id = self._new_id(spec)
        job_rows.add(connection, job_id, spec, actor, key, self._now())
        return self._known(connection, job_id)

    def _row(self, connection: Connection, job_id: str) -> Row[*tuple[Any, ...]]:
        found = job_rows.row(connection, job_id)
        if found is None:
            raise Unknown(f"there is no job {job_id}; it may have been forgotten after its time")
        return found

    def _known(self, connection: Connection, job_id: str) -> Job:
        return self._jobs(connection, [self._row(connection, job_id)])[0]

    def _jobs(
        self, connection: Connection, rows: Sequence[Row[*tuple[Any, ...]]]
    ) -> tuple[Job, ...]:
        places: dict[str, int] = {}
        reasons: dict[str, str] = {}
        if any(row.state == JobState.QUEUED for row in rows):
            decision = decide(connection, self._settings, self._now())
            places = {job: place for place, job in enumerate(decision.order, 1)}
            reasons = decision.reasons
        ran = run_rows.with_runs(connection, [row.id for row in rows])
        return tuple(
            job_rows.job_of(row, places.get(row.id), reasons.get(row.id, ""), row.id in ran)
            for row in rows
        )

    async def _write(self, change: Callable[[Connection], T]) -> T:
        return await asyncio.to_thread(self._database.write, change)

    async def _read(self, look: Callable[[Connection], T]) -> T:
        return await asyncio.to_thread(self._database.read, look)


def _new_id(spec: JobSpec) -> str:
    return f"{spec.recipe.kind}-{secrets.token_hex(6)}"
