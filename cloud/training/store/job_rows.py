"""Jobs as rows: put in, looked at, changed by who asks. What workers do is in `claim_rows.py`."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from cloud.training.documents import Job, JobSpec, JobState
from cloud.training.queue.parties import Running, Waiting
from cloud.training.store import run_rows
from cloud.training.store import schema as s

_J: Final = s.jobs.c
HELD: Final = (JobState.RUNNING.value, JobState.STOPPING.value)
"""States in which a worker has it, by a lease."""
OVER: Final = frozenset({JobState.DONE, JobState.FAILED, JobState.CANCELLED})
"""From which it never comes back."""
WHY_MAX: Final = 1000


def add(
    connection: Connection, job_id: str, spec: JobSpec, by: str, key: str | None, now: float
) -> None:
    connection.execute(insert(s.jobs).values(
        id=job_id, team=spec.team, priority=spec.priority, cpus=spec.cpus,
        spec=spec.model_dump_json(), submitted_by=by, submitted_at=now, idempotency_key=key,
        state=JobState.QUEUED.value, due_at=now, since=now, worker="", level=0, stop="", attempts=0,
        preemptions=0, worked_s=0.0, progress=0.0, why="",
    ))  # fmt: skip


def row(connection: Connection, job_id: str) -> Row[*tuple[Any, ...]] | None:
    return connection.execute(select(s.jobs).where(_J.id == job_id)).one_or_none()


def of_key(connection: Connection, by: str, key: str) -> Row[*tuple[Any, ...]] | None:
    query = select(s.jobs).where(_J.submitted_by == by, _J.idempotency_key == key)
    return connection.execute(query).one_or_none()


def page(
    connection: Connection, state: str | None, team: str | None, after: int | None, limit: int
) -> Sequence[Row[*tuple[Any, ...]]]:
    """The newest first; `after`: the `seq` of the last one of the page before."""
    query = select(s.jobs).order_by(_J.seq.desc()).limit(limit)
    if state is not None:
        query = query.where(_J.state == state)
    if team is not None:
        query = query.where(_J.team == team)
    if after is not None:
        query = query.where(_J.seq < after)
    return connection.execute(query).all()


def queued_counts(connection: Connection, team: str) -> tuple[int, int]:
    """Of the team, and of all."""
    query = select(_J.team, func.count()).where(_J.state == "queued").group_by(_J.team)
    counts = {name: int(count) for name, count in connection.execute(query)}
    return counts.get(team, 0), sum(counts.values())


def state_counts(connection: Connection) -> dict[str, int]:
    query = select(_J.state, func.count()).group_by(_J.state)
    return {name: int(count) for name, count in connection.execute(query)}


def change(connection: Connection, job_id: str, values: Mapping[str, object]) -> None:
    """A job that is over by them ends its run as well."""
    ended_at = values.get("ended_at")
    if isinstance(ended_at, int | float):
        run_rows.end(connection, job_id, ended_at)
    connection.execute(update(s.jobs).where(_J.id == job_id).values(**values))


def waiting(connection: Connection, now: float) -> list[Waiting]:
    """Those that are due."""
    query = select(_J.id, _J.team, _J.priority, _J.cpus, _J.since, _J.worker).where(
        _J.state == "queued", _J.due_at <= now
    )
    return [Waiting(*found) for found in connection.execute(query)]


def running(connection: Connection) -> list[Running]:
    query = select(
        _J.id, _J.team, _J.priority, _J.cpus, _J.worker, _J.began_at, _J.level, _J.state,
        _J.preempted_at,
    ).where(_J.state.in_(HELD))  # fmt: skip
    return [
        Running(
            one.id, one.team, one.priority, one.cpus, one.worker, one.began_at or 0.0, one.level,
            stopping=one.state == JobState.STOPPING, preempted_at=one.preempted_at,
        )
        for one in connection.execute(query)
    ]  # fmt: skip


def held(connection: Connection) -> dict[str, tuple[tuple[str, int], ...]]:
    """Of each worker the jobs that it has, with their CPUs, in the order of ids."""
    query = select(_J.worker, _J.id, _J.cpus).where(_J.state.in_(HELD)).order_by(_J.id)
    found: dict[str, tuple[tuple[str, int], ...]] = {}
    for worker, job_id, cpus in connection.execute(query):
        found[worker] = (*found.get(worker, ()), (job_id, cpus))
    return found


def forget(connection: Connection, ended_before: float, kept_max: int) -> list[str]:
    """Ended jobs with their runs; the hashes of files that nothing names any more."""
    ended = _J.ended_at.is_not(None)
    old = set(connection.execute(select(_J.id).where(ended, _J.ended_at < ended_before)).scalars())
    surplus = select(_J.id).where(ended).order_by(_J.ended_at.desc(), _J.seq.desc())
    old.update(connection.execute(surplus.offset(kept_max)).scalars())
    hashes: set[str] = set()
    for job_id in sorted(old):
        hashes.update(connection.execute(
            select(s.artifacts.c.sha256).where(s.artifacts.c.job == job_id)
        ).scalars())  # fmt: skip
        for table in (s.artifacts, s.points, s.logs, s.runs):
            connection.execute(delete(table).where(table.c.job == job_id))
        connection.execute(delete(s.jobs).where(_J.id == job_id))
    return sorted(one for one in hashes if not is_named(connection, one))


def drop_checkpoints(connection: Connection) -> list[str]:
    """Of jobs that ended; their hashes."""
    mine = (_J.ended_at.is_not(None), _J.checkpoint.is_not(None))
    found = set(connection.execute(select(_J.checkpoint).where(*mine)).scalars())
    if found:
        connection.execute(update(s.jobs).where(*mine).values(checkpoint=None))
    return sorted(one for one in found if not is_named(connection, one))


def is_named(connection: Connection, sha256: str) -> bool:
    """Whether any job or run needs the file."""
    for query in (
        select(s.artifacts.c.job).where(s.artifacts.c.sha256 == sha256),
        select(_J.id).where(_J.checkpoint == sha256),
    ):
        if connection.execute(query.limit(1)).first() is not None:
            return True
    return False


def job_of(found: Row[*tuple[Any, ...]], place: int | None, why: str, has_run: bool) -> Job:
    """As the API gives it."""
    spec = JobSpec.model_validate_json(found.spec).model_copy(update={"priority": found.priority})
    return Job(
        id=found.id, spec=spec, state=JobState(found.state), submitted_by=found.submitted_by,
        submitted_at=found.submitted_at, started_at=found.started_at, ended_at=found.ended_at,
        worker="" if found.state == JobState.QUEUED else found.worker, attempts=found.attempts, preemptions=found.preemptions,
        worked_s=found.worked_s, progress=found.progress, run=found.id if has_run else None,
        why="; ".join(part for part in (found.why, why) if part)[:WHY_MAX], bundle=found.bundle, bundle_sha256=found.bundle_sha256,
        place=place,
    )  # fmt: skip
