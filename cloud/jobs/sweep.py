"""What time does to jobs: expiry, poison, deletion. A change of one transaction, bounded."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import ColumnElement, Select, and_, delete, not_, or_, select, update

from cloud.jobs.claims import delivery_from
from cloud.jobs.database import Transaction
from cloud.jobs.record import ENDED, JobId, Reason
from cloud.jobs.schema import ROW_OVERHEAD_BYTES, jobs
from cloud.jobs.settings import JobSettings

_ROWS_MAX = 256
"""Of each kind in one sweep: some milliseconds, while others wait."""


@dataclass(frozen=True, slots=True)
class Swept:
    """`more`: a bound was reached, so sweep again soon."""

    given_up: Mapping[Reason, int] = field(default_factory=dict)
    ended: tuple[JobId, ...] = ()
    deleted: int = 0
    undelivered: int = 0
    more: bool = False


def sweep(transaction: Transaction, rules: JobSettings, now: float) -> Swept:
    """Give up what may not go on, and delete what was kept for its time. `now`: Unix seconds."""
    not_held = or_(jobs.c.state == "queued", jobs.c.due_at <= now)
    poisoned = _give_up(
        transaction, "poison",
        and_(jobs.c.state == "running", jobs.c.due_at <= now, jobs.c.claims >= rules.claims_max),
        f"{rules.claims_max} workers in a row ended while they ran it; do not send it again "
        "before this server's operator has looked at it", rules, now,
    )  # fmt: skip
    expired = _give_up(
        transaction, "expired",
        and_(jobs.c.state.in_(("queued", "running")), not_held, jobs.c.expires_at <= now),
        f"there was no answer within {rules.expiry_s:g} s; send it again", rules, now,
    )  # fmt: skip
    undelivered = _stop_delivering(transaction, now)
    over = and_(jobs.c.due_at <= now, not_(_being_delivered()))
    unfetched = _give_up(
        transaction, "unfetched",
        and_(jobs.c.state == "done", jobs.c.fetched_at.is_(None), over, _not_delivered()),
        "nobody fetched the answer in time; send the request again", rules, now,
    )  # fmt: skip
    gone = and_(jobs.c.state.in_(ENDED), over)
    deleted = transaction.connection.execute(
        delete(jobs).where(jobs.c.seq.in_(_some(gone)))
    ).rowcount
    transaction.changed()
    found: dict[Reason, list[JobId]] = {
        "poison": poisoned, "expired": expired, "unfetched": unfetched,
    }  # fmt: skip
    return Swept(
        {reason: len(ids) for reason, ids in found.items() if ids},
        (*poisoned, *expired),
        deleted,
        undelivered,
        _ROWS_MAX in {len(poisoned), len(expired), len(unfetched), deleted, undelivered},
    )


def _give_up(
    transaction: Transaction,
    reason: Reason,
    where: ColumnElement[bool],
    detail: str,
    rules: JobSettings,
    now: float,
) -> list[JobId]:
    """End jobs without an answer; they can be looked at for another `expiry_s`."""
    kept_until = now + rules.expiry_s
    delivery = {} if reason == "unfetched" else delivery_from(now, kept_until)
    rows = transaction.connection.execute(
        update(jobs)
        .where(jobs.c.seq.in_(_some(where)))
        .values(
            state="failed" if reason == "poison" else "expired", body=b"", answer=None,
            row_bytes=ROW_OVERHEAD_BYTES, due_at=kept_until, ended_at=now, owner=None,
            failure_reason=reason, failure_error="Unavailable", failure_detail=detail, **delivery,
        )
        .returning(jobs.c.id)
    )  # fmt: skip
    return [JobId(id_) for (id_,) in rows]


def _stop_delivering(transaction: Transaction, now: float) -> int:
    late = and_(
        _being_delivered(), jobs.c.delivery_until <= now,
        or_(jobs.c.delivery == "pending", jobs.c.delivery_due_at <= now),
    )  # fmt: skip
    return transaction.connection.execute(
        update(jobs).where(jobs.c.seq.in_(_some(late))).values(delivery="given_up")
    ).rowcount


def _being_delivered() -> ColumnElement[bool]:
    return and_(jobs.c.delivery.is_not(None), jobs.c.delivery.in_(("pending", "sending")))


def _not_delivered() -> ColumnElement[bool]:
    return or_(jobs.c.delivery.is_(None), jobs.c.delivery != "delivered")


def _some(where: ColumnElement[bool]) -> Select[tuple[int]]:
    return select(jobs.c.seq).where(where).limit(_ROWS_MAX)
