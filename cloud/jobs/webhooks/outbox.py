"""Results that wait to be delivered, in the jobs' table. Changes of one transaction each."""

import secrets

from sqlalchemy import ColumnElement, and_, case, func, select, update

from cloud.jobs.database import Transaction
from cloud.jobs.record import Delivery, Failure, JobId
from cloud.jobs.schema import jobs
from cloud.jobs.settings import JobSettings
from shared.oip.body import Encoded


def claim_deliveries(
    transaction: Transaction, count_max: int, rules: JobSettings, now: float
) -> list[Delivery]:
    """Those that are due, under a lease; each counts as an attempt. Unix seconds.

    Callers who have `caller_in_flight_max` out are passed over, so that a receiver that hangs
    holds up no other; one claim may go over that by less than `count_max`.
    """
    owner, other = secrets.token_hex(16), jobs.alias()
    busy = (
        select(other.c.caller)
        .where(other.c.delivery == "sending", other.c.delivery_due_at > now)
        .group_by(other.c.caller)
        .having(func.count() >= rules.webhook.caller_in_flight_max)
    )
    due = (
        select(jobs.c.seq)
        .where(
            jobs.c.delivery.in_(("pending", "sending")), jobs.c.delivery_due_at <= now,
            jobs.c.delivery_until > now, jobs.c.caller.not_in(busy),
        )
        .order_by(jobs.c.delivery_due_at, jobs.c.seq)
        .limit(count_max)
    )  # fmt: skip
    rows = transaction.connection.execute(
        update(jobs)
        .where(jobs.c.seq.in_(due))
        .values(
            delivery="sending", delivery_owner=owner, delivery_due_at=now + rules.lease_s,
            delivery_attempts=jobs.c.delivery_attempts + 1,
        )
        .returning(
            jobs.c.seq, jobs.c.id, jobs.c.caller, jobs.c.webhook, jobs.c.model, jobs.c.state,
            jobs.c.ended_at, jobs.c.answer, jobs.c.answer_header_bytes, jobs.c.failure_reason,
            jobs.c.failure_error, jobs.c.failure_detail, jobs.c.delivery_attempts,
            jobs.c.delivery_until,
        )
    )  # fmt: skip
    return [
        Delivery(
            seq=row.seq, owner=owner, id=JobId(row.id), caller=row.caller, url=row.webhook or "",
            model=row.model, state=row.state, ended_at=row.ended_at or now,
            answer=None if row.answer is None else Encoded(row.answer, row.answer_header_bytes),
            failure=None if row.failure_reason is None
            else Failure(row.failure_reason, row.failure_error, row.failure_detail),
            attempts=row.delivery_attempts, until=row.delivery_until,
        )
        for row in rows
    ]  # fmt: skip


def delivered(
    transaction: Transaction, delivery: Delivery, rules: JobSettings, now: float, *, complete: bool
) -> bool:
    """Its receiver has it; `complete`: so it need be kept no longer than if it were fetched."""
    soon = now + rules.kept_s
    kept = {"due_at": case((jobs.c.due_at > soon, soon), else_=jobs.c.due_at)} if complete else {}
    return _update(transaction, delivery, delivery="delivered", delivery_due_at=None, **kept)


def deliver_later(transaction: Transaction, delivery: Delivery, due_at: float) -> bool:
    return _update(transaction, delivery, delivery="pending", delivery_due_at=due_at)


def give_up(transaction: Transaction, delivery: Delivery) -> bool:
    """The result can still be fetched."""
    return _update(transaction, delivery, delivery="given_up", delivery_due_at=None)


def _update(transaction: Transaction, sent: Delivery, **values: object) -> bool:
    """False where it is not ours any more."""
    held: ColumnElement[bool] = and_(
        jobs.c.seq == sent.seq, jobs.c.delivery == "sending",
        jobs.c.delivery_owner == sent.owner,
    )  # fmt: skip
    return bool(transaction.connection.execute(update(jobs).where(held).values(**values)).rowcount)
