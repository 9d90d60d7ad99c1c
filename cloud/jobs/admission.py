"""A job becomes durable: idempotency keys, and the bounds. A change of one transaction."""

from sqlalchemy import insert, select

from cloud.jobs.database import Transaction
from cloud.jobs.record import Admitted, JobId, NewJob
from cloud.jobs.schema import ROW_OVERHEAD_BYTES, jobs
from cloud.jobs.settings import JobSettings
from shared.errors import Overloaded, Refused

_INSERT = insert(jobs)  # made once: values given beside it cost half of the statement
_RETRY_AFTER_S = 60.0
"""Room comes from callers who fetch, and from time; neither is known."""


def admit(transaction: Transaction, new: NewJob, rules: JobSettings, now: float) -> Admitted:
    """Store a job, or find the one that has its idempotency key. `now` in Unix seconds.

    Raises `Refused` for a key that another request has, `Overloaded` when a bound is reached.
    """
    if new.idempotency_key is not None and (known := _of_key(transaction, new)) is not None:
        return known
    row_bytes = len(new.body) + rules.answer_bytes_expected + ROW_OVERHEAD_BYTES
    _has_room(transaction, new.caller, row_bytes, rules)
    within_s = rules.expiry_s if new.within_s is None else min(new.within_s, rules.expiry_s)
    transaction.connection.execute(
        _INSERT,
        {
            "id": new.id, "caller": new.caller, "idempotency_key": new.idempotency_key,
            "digest": new.digest, "model": new.model, "version": new.version,
            "request_id": new.request_id, "traceparent": new.traceparent, "body": new.body, "header_length": new.header_length,
            "row_bytes": row_bytes, "state": "queued", "due_at": now, "claims": 0, "attempts": 0,
            "created_at": now, "expires_at": now + within_s,
            "webhook": new.webhook, "delivery_attempts": 0,
        },
    )  # fmt: skip
    transaction.grew(new.caller, row_bytes)
    return Admitted(new.id, fresh=True)


def _of_key(transaction: Transaction, new: NewJob) -> Admitted | None:
    known = transaction.connection.execute(
        select(jobs.c.id, jobs.c.digest).where(
            jobs.c.caller == new.caller, jobs.c.idempotency_key == new.idempotency_key
        )
    ).one_or_none()
    if known is None:
        return None
    if known.digest != new.digest:
        raise Refused(
            f"Idempotency-Key {str(new.idempotency_key)[:60]!r} belongs to another request, job "
            f"{known.id}; use a new key for a new request"
        )
    return Admitted(JobId(known.id), fresh=False)


def _has_room(transaction: Transaction, caller: str, row_bytes: int, rules: JobSettings) -> None:
    mine, whole = transaction.size(caller), transaction.size()
    for what, held, more, most in (
        ("you have {} jobs here of {}", mine.jobs, 1, rules.caller_jobs_max),
        ("your jobs take {} bytes of {}", mine.bytes, row_bytes, rules.caller_bytes_max),
        ("there are {} jobs of {}", whole.jobs, 1, rules.jobs_max),
        ("all jobs take {} bytes of {}", whole.bytes, row_bytes, rules.bytes_max),
    ):
        if held + more > most:
            raise Overloaded(
                f"asynchronous tier: {what.format(held, most)}; fetch results and DELETE them at "
                f"/v1/results/{{id}}, or come again in {_RETRY_AFTER_S:g} s",
                _RETRY_AFTER_S,
            )
