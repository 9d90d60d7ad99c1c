"""Who works at a job, and how that ends. Changes of one transaction each.

A claim is an `UPDATE ... RETURNING` with a lease and a token: a worker that is killed loses its jobs
to others when the lease is over, and one that comes too late finds another token.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import ColumnElement, Connection, and_, select, update

from cloud.training.documents import JobSpec, JobState
from cloud.training.queue.ending import Ended, GaveBack, changes
from cloud.training.queue.settings import Training
from cloud.training.store import job_rows
from cloud.training.store import schema as s
from cloud.training.store.job_rows import HELD, is_named

_J: Final = s.jobs.c


@dataclass(frozen=True, slots=True)
class Claimed:
    """A job that is ours until its lease ends."""

    id: str
    owner: str
    spec: JobSpec
    attempts: int
    worked_s: float
    """Before this attempt."""
    checkpoint: tuple[str, str] | None
    """SHA-256 in the artifact store, and the file's name, where another machine left one."""


def claim(
    connection: Connection, job_id: str, worker: str, level: int, now: float, lease_s: float
) -> Claimed | None:
    """None where it waits no more."""
    owner = secrets.token_hex(16)
    found = connection.execute(
        update(s.jobs)
        .where(_J.id == job_id, _J.state == "queued")
        .values(
            state="running", owner=owner, worker=worker, level=level, stop="", why="",
            due_at=now + lease_s, began_at=now, attempts=_J.attempts + 1,
        )
        .returning(
            _J.id, _J.spec, _J.attempts, _J.worked_s, _J.checkpoint, _J.checkpoint_name,
            _J.started_at,
        )
    ).one_or_none()  # fmt: skip
    if found is None:
        return None
    if found.started_at is None:
        connection.execute(update(s.jobs).where(_J.id == job_id).values(started_at=now))
    kept = (found.checkpoint, found.checkpoint_name) if found.checkpoint else None
    spec = JobSpec.model_validate_json(found.spec)
    return Claimed(found.id, owner, spec, found.attempts, found.worked_s, kept)


def renew(
    connection: Connection, job: Claimed, now: float, lease_s: float, values: Mapping[str, object]
) -> str | None:
    """What is asked of it (`stop`; empty: nothing); None where it is not ours any more."""
    found = connection.execute(
        update(s.jobs)
        .where(_J.id == job.id, _J.owner == job.owner, _J.state.in_(HELD))
        .values(due_at=now + lease_s, **values)
        .returning(_J.stop)
    ).one_or_none()
    return None if found is None else str(found.stop)


def stop(connection: Connection, job_id: str, how: str, why: str) -> None:
    """Ask whoever works at it; a cancellation stands above a preemption."""
    before = ("", "preempt") if how == "cancel" else ("",)
    connection.execute(
        update(s.jobs)
        .where(_J.id == job_id, _J.state.in_(HELD), _J.stop.in_(before))
        .values(state="stopping", stop=how, why=why)
    )


def end(
    connection: Connection, job: Claimed, ended: Ended, rules: Training, now: float
) -> JobState | None:
    """What came of it, and its state then; None where it is not ours any more."""
    found = connection.execute(
        select(_J.attempts, _J.stop, _J.preemptions, _J.why).where(
            _J.id == job.id, _J.owner == job.owner, _J.state.in_(HELD)
        )
    ).one_or_none()
    if found is None:
        return None
    values = changes(
        ended, found.attempts, job.spec.attempts_max, found.stop, found.why, found.preemptions,
        rules, now,
    )  # fmt: skip
    job_rows.change(connection, job.id, values)
    return JobState(str(values["state"]))


def let_go(connection: Connection, worker: str, now: float) -> None:
    """Its process is gone for certain: the leases of its jobs are over."""
    connection.execute(
        update(s.jobs).where(_J.worker == worker, _J.state.in_(HELD)).values(due_at=now)
    )


def take_over(connection: Connection, rules: Training, now: float) -> list[str]:
    """Jobs whose workers vanished go back to the queue, or fail; their ids."""
    return _take(connection, _J.due_at <= now, "its worker {} vanished", True, rules, now)


def give_back(
    connection: Connection, worker: str, held: Sequence[str], rules: Training, now: float
) -> list[str]:
    """Jobs of a worker that lives and is not at work on them go back to the queue at no attempt's cost: the
    database was away for longer than their leases, or its answer that gave them was lost. `held`: the
    tokens of those that it has; their ids.
    """
    others = and_(_J.worker == worker, _J.owner.not_in(held))
    words = "its worker {} had lost it while the learning database was away"
    return _take(connection, others, words, False, rules, now)


def _take(
    connection: Connection,
    which: ColumnElement[bool],
    words: str,
    costs: bool,
    rules: Training,
    now: float,
) -> list[str]:
    query = select(_J.id, _J.spec, _J.attempts, _J.stop, _J.worker, _J.why, _J.preemptions).where(
        _J.state.in_(HELD), which
    )
    lost = connection.execute(query.order_by(_J.seq)).all()
    for one in lost:
        back = GaveBack(words.format(one.worker), costs=costs)
        attempts_max = JobSpec.model_validate_json(one.spec).attempts_max
        values = changes(
            back, one.attempts, attempts_max, one.stop, one.why, one.preemptions, rules, now
        )
        job_rows.change(connection, one.id, values)
    return [one.id for one in lost]


def keep_checkpoint(connection: Connection, job: Claimed, sha256: str, name: str) -> str | None:
    """The hash of the one before, which nothing needs any more."""
    mine = (_J.id == job.id, _J.owner == job.owner)
    before = connection.execute(select(_J.checkpoint).where(*mine)).scalar()
    connection.execute(update(s.jobs).where(*mine).values(checkpoint=sha256, checkpoint_name=name))
    return None if before is None or is_named(connection, before) else str(before)
