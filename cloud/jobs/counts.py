"""What the asynchronous tier counts. Each change is counted by the process that made it."""

from collections.abc import Iterable
from typing import Literal, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge

from cloud.jobs.record import Reason

Outcome = Literal["delivered", "retried", "given_up"]
Guarded = Literal["url", "address", "caller"]
Retried = Literal["unavailable", "store", "late"]


class JobCounts:
    """Registers in `registry`; labels are the words above, never callers or hosts."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def plain(name: str, what: str) -> Counter:
            return Counter(f"hybridge_jobs_{name}", what, registry=registry)

        def by(name: str, what: str, label: str, values: Iterable[str]) -> dict[str, Counter]:
            counter = Counter(f"hybridge_jobs_{name}", what, [label], registry=registry)
            return {value: counter.labels(value) for value in values}

        self.accepted = plain("accepted", "Jobs on disk, accepted")
        self.repeated = plain("repeated", "Requests whose idempotency key named a job that exists")
        self.over_bounds = plain("over_bounds", "Jobs refused because a bound was reached")
        self.done = plain("done", "Jobs that have an answer")
        self.given_up = by("given_up", "Jobs without an answer, by why", "reason", get_args(Reason))
        self.cancelled = plain("cancelled", "Jobs that their callers cancelled")
        self.retried = by(
            "retried", "Attempts without an end: try later; result not stored; lease was over",
            "why", get_args(Retried),
        )  # fmt: skip
        self.reclaimed = plain("reclaimed", "Jobs taken from a process whose lease was over")
        self.deleted = plain("deleted", "Jobs deleted after they were kept for their time")
        self.deliveries = by(
            "deliveries", "Webhook POSTs, by outcome", "outcome", get_args(Outcome)
        )
        self.guarded = by(
            "webhook_refused", "Webhooks refused, by what was wrong: URL, address, caller has no "
            "secret", "why", get_args(Guarded),
        )  # fmt: skip
        self.in_hand = Gauge("hybridge_jobs_in_hand", "Jobs this process runs", registry=registry)
