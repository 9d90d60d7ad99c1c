"""What callers see of their jobs, and what they may do to them. Another's job is no job."""

from collections.abc import Sequence
from typing import Any, Literal

from sqlalchemy import Connection, Row, and_, case, delete, select, update

from cloud.jobs.database import Transaction
from cloud.jobs.record import ENDED, LIVE, Failure, JobId, JobView, Result
from cloud.jobs.schema import ROW_OVERHEAD_BYTES, jobs
from cloud.jobs.settings import JobSettings
from shared.oip.body import Encoded

_VIEW = (
    jobs.c.id, jobs.c.caller, jobs.c.model, jobs.c.version, jobs.c.state, jobs.c.attempts,
    jobs.c.created_at, jobs.c.expires_at, jobs.c.ended_at, jobs.c.due_at, jobs.c.fetched_at,
    jobs.c.failure_reason, jobs.c.failure_error, jobs.c.failure_detail, jobs.c.delivery,
)  # fmt: skip


def result(connection: Connection, caller: str, id_: JobId) -> Result | None:
    row = connection.execute(
        select(*_VIEW, jobs.c.answer, jobs.c.answer_header_bytes).where(
            jobs.c.id == id_, jobs.c.caller == caller
        )
    ).one_or_none()
    if row is None:
        return None
    answer = None if row.answer is None else Encoded(row.answer, row.answer_header_bytes)
    return Result(_view(row), answer)


def find(connection: Connection, id_: JobId) -> JobView | None:
    """Whoever's it is: for this machine's operator."""
    row = connection.execute(select(*_VIEW).where(jobs.c.id == id_)).one_or_none()
    return None if row is None else _view(row)


def page(
    connection: Connection, caller: str | None, count_max: int, before: JobId | None = None
) -> list[JobView]:
    """The newest first; `before`: those older than this one. `caller` None: everybody's."""
    query = select(*_VIEW).order_by(jobs.c.seq.desc()).limit(count_max)
    if caller is not None:
        query = query.where(jobs.c.caller == caller)
    if before is not None:
        last = select(jobs.c.seq).where(jobs.c.id == before)
        if caller is not None:
            last = last.where(jobs.c.caller == caller)
        query = query.where(jobs.c.seq < last.scalar_subquery())
    return [_view(row) for row in connection.execute(query)]


def ended_of(connection: Connection, ids: Sequence[JobId]) -> set[JobId]:
    """Those of `ids` that need not be waited for: ended, or gone."""
    live = connection.execute(select(jobs.c.id).where(jobs.c.id.in_(ids), jobs.c.state.in_(LIVE)))
    return set(ids) - {JobId(id_) for (id_,) in live}


def counts_by_state(connection: Connection) -> dict[tuple[str, str | None], int]:
    """Jobs by state and failure's reason."""
    found: dict[tuple[str, str | None], int] = {}
    for state, reason in connection.execute(select(jobs.c.state, jobs.c.failure_reason)):
        found[state, reason] = found.get((state, reason), 0) + 1
    return found


def fetched(transaction: Transaction, id_: JobId, rules: JobSettings, now: float) -> None:
    """An ended job was shown to its caller: it need not be kept for long. Unix seconds."""
    soon = now + rules.kept_s
    transaction.connection.execute(
        update(jobs)
        .where(jobs.c.id == id_, jobs.c.fetched_at.is_(None), jobs.c.state.in_(ENDED))
        .values(fetched_at=now, due_at=case((jobs.c.due_at > soon, soon), else_=jobs.c.due_at))
    )


def remove(
    transaction: Transaction, caller: str | None, id_: JobId, rules: JobSettings, now: float
) -> Literal["cancelled", "deleted"] | None:
    """End a job that has not ended, else delete it; None where there is none of this caller's."""
    mine = jobs.c.id == id_ if caller is None else and_(jobs.c.id == id_, jobs.c.caller == caller)
    transaction.changed()
    cancelled = transaction.connection.execute(
        update(jobs)
        .where(mine, jobs.c.state.in_(LIVE))
        .values(
            state="cancelled", body=b"", row_bytes=ROW_OVERHEAD_BYTES, owner=None,
            ended_at=now, due_at=now + rules.kept_s,
        )
    ).rowcount  # fmt: skip
    if cancelled:
        return "cancelled"
    deleted = transaction.connection.execute(delete(jobs).where(mine)).rowcount
    return "deleted" if deleted else None


def _view(row: Row[*tuple[Any, ...]]) -> JobView:
    failure = None
    if row.failure_reason is not None:
        failure = Failure(row.failure_reason, row.failure_error, row.failure_detail)
    return JobView(
        id=JobId(row.id), caller=row.caller, model=row.model, version=row.version,
        state=row.state, attempts=row.attempts, created_at=row.created_at,
        expires_at=row.expires_at, ended_at=row.ended_at,
        kept_until=row.due_at if row.state in ENDED else None,
        fetched=row.fetched_at is not None, failure=failure, delivery=row.delivery,
    )  # fmt: skip
