"""Who works at a job, and how it ends. Changes of one transaction each.

A claim is an `UPDATE ... RETURNING` with a lease and a token: a process that is killed loses its
jobs to others when the lease is over, and one that comes too late finds another token.
"""

import secrets
from collections.abc import Mapping

from sqlalchemy import bindparam, case, func, or_, select, update

from cloud.jobs.database import Transaction
from cloud.jobs.record import Claimed, Failure, JobId
from cloud.jobs.schema import ROW_OVERHEAD_BYTES, jobs
from cloud.jobs.settings import JobSettings
from shared.oip.body import Encoded

_UPDATE_HELD = update(jobs).where(  # made once, which is most of what it costs
    jobs.c.seq == bindparam("held_seq"), jobs.c.state == "running",
    jobs.c.owner == bindparam("held_owner"),
)  # fmt: skip


def claim(
    transaction: Transaction,
    count_max: int,
    rules: JobSettings,
    now: float,
    bytes_max: int | None = None,
) -> tuple[list[Claimed], int]:
    """The oldest jobs that are due, and how many of them another process had and lost.

    `bytes_max`: of all of them, by `row_bytes`; None where nothing is in hand: `in_hand_bytes_max`,
    and the first whatever its size. One that does not fit lets none behind it pass.
    """
    owner = secrets.token_hex(16)
    oldest = (
        select(jobs.c.seq, jobs.c.due_at, jobs.c.row_bytes)
        .where(
            jobs.c.state.in_(("queued", "running")), jobs.c.due_at <= now,
            jobs.c.expires_at > now, jobs.c.claims < rules.claims_max,
        )
        .order_by(jobs.c.due_at, jobs.c.seq)
        .limit(count_max)
        .subquery()
    )  # fmt: skip
    in_turn = (oldest.c.due_at, oldest.c.seq)
    before = select(
        oldest.c.seq,
        func.sum(oldest.c.row_bytes).over(order_by=in_turn).label("total"),
        func.row_number().over(order_by=in_turn).label("place"),
    ).subquery()
    if bytes_max is None:
        fits = or_(before.c.total <= rules.in_hand_bytes_max, before.c.place == 1)
    else:
        fits = before.c.total <= bytes_max
    due = select(before.c.seq).where(fits)
    lease_until = now + rules.lease_s
    rows = transaction.connection.execute(
        update(jobs)
        .where(jobs.c.seq.in_(due))
        .values(state="running", owner=owner, due_at=lease_until, claims=jobs.c.claims + 1)
        .returning(
            jobs.c.seq, jobs.c.id, jobs.c.caller, jobs.c.model, jobs.c.version, jobs.c.body,
            jobs.c.header_length, jobs.c.webhook, jobs.c.request_id, jobs.c.traceparent, jobs.c.row_bytes,
            jobs.c.attempts, jobs.c.expires_at, jobs.c.claims,
        )
    ).all()  # fmt: skip
    claimed = [
        Claimed(
            seq=row.seq, owner=owner, id=JobId(row.id), caller=row.caller, model=row.model,
            version=row.version, body=row.body, header_length=row.header_length,
            has_webhook=row.webhook is not None, request_id=row.request_id, traceparent=row.traceparent,
            row_bytes=row.row_bytes, attempts=row.attempts, expires_at=row.expires_at,
            lease_until=lease_until,
        )
        for row in sorted(rows, key=lambda row: row.seq)
    ]  # fmt: skip
    return claimed, sum(row.claims > 1 for row in rows)


def finish(
    transaction: Transaction,
    job: Claimed,
    outcome: Encoded | Failure,
    rules: JobSettings,
    now: float,
) -> Encoded | Failure | None:
    """Store what came of a job: what was stored, or None where it is not ours any more.

    An answer that is over its bound, or that nothing has room for, is stored as a failure.
    """
    if isinstance(outcome, Encoded):
        outcome = _that_fits(transaction, job, outcome, rules)
    size = len(outcome.body) if isinstance(outcome, Encoded) else len(outcome.detail)
    kept_until = max(job.expires_at, now + rules.kept_s)
    wanted = "pending" if job.has_webhook else None
    ours = _update(
        transaction, job, **_ended(outcome), body=b"", ended_at=now, due_at=kept_until,
        row_bytes=size + ROW_OVERHEAD_BYTES,
        delivery=wanted, delivery_due_at=wanted and now, delivery_until=wanted and kept_until,
    )  # fmt: skip
    transaction.changed()
    return outcome if ours else None


def give_back(
    transaction: Transaction, job: Claimed, due_at: float, *, attempted: bool = True
) -> bool:
    """Let a job be claimed again from `due_at` on; false where it is not ours any more."""
    attempts = job.attempts + 1 if attempted else job.attempts
    return _update(
        transaction, job, state="queued", owner=None, due_at=due_at, claims=0, attempts=attempts,
    )  # fmt: skip


def delivery_from(now: float, until: float) -> Mapping[str, object]:
    """Columns: a job that ended is to be delivered, if it has a webhook."""
    wanted = jobs.c.webhook.is_not(None)
    return {
        "delivery": case((wanted, "pending"), else_=None),
        "delivery_due_at": case((wanted, now), else_=None),
        "delivery_until": case((wanted, until), else_=None),
    }


def _that_fits(
    transaction: Transaction, job: Claimed, answer: Encoded, rules: JobSettings
) -> Encoded | Failure:
    size = len(answer.body)
    if size > rules.answer_bytes_max:
        return Failure(
            "no_room", "TooLarge",
            f"the answer has {size} bytes; at most {rules.answer_bytes_max} are kept: send fewer "
            "rows in one request, or name the outputs you need",
        )  # fmt: skip
    grows = size + ROW_OVERHEAD_BYTES - job.row_bytes
    if grows > 0 and transaction.size().bytes + grows > rules.bytes_max:
        return Failure(
            "no_room", "Overloaded",
            f"there was no room for the answer's {size} bytes; fetch or DELETE results, then send "
            "the request again",
        )  # fmt: skip
    return answer


def _ended(outcome: Encoded | Failure) -> Mapping[str, object]:
    if isinstance(outcome, Encoded):
        return {
            "state": "done",
            "answer": outcome.body,
            "answer_header_bytes": outcome.header_bytes,
        }
    return {
        "state": "failed",
        "failure_reason": outcome.reason,
        "failure_error": outcome.error,
        "failure_detail": outcome.detail,
    }


def _update(transaction: Transaction, job: Claimed, **values: object) -> bool:
    """False where it is not ours any more."""
    held = {"held_seq": job.seq, "held_owner": job.owner}
    return bool(transaction.connection.execute(_UPDATE_HELD, held | values).rowcount)
