"""What the cloud counts, in a registry of its own (Prometheus text at `/metrics`)."""

from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from cloud.monitoring.stage_times import StageTimes
from shared.wire.envelope import RefusalCode

_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """Labels are bounded: codes, stages and the models of the configuration, never device ids."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.received = self._counter("received", "Deliveries taken from the broker")
        self.answered = self._counter("answered", "Samples answered afresh, published and stored")
        self.duplicates = self._counter("duplicates", "Copies of a sample answered or in flight")
        self.unacknowledged = self._counter("unacknowledged", "Deliveries left with the broker")
        self.undelivered = self._counter("undelivered", "Answers the broker did not take")
        self.failures = self._counter("failures", "Escalations that met a fault of ours; see log")
        self.stored = self._counter("stored", "Feedback rows committed")
        self.evicted = self._counter("evicted", "Feedback rows deleted, oldest first, for room")
        self.store_rejected = self._counter("store_rejected", "Feedback rows the database refused")
        self.unstored = self._counter(
            "unstored", "Deliveries acknowledged before their row's commit"
        )
        self.feedback_lost = self._counter(
            "feedback_lost", "Feedback rows that nothing had room for"
        )
        self.store_failures = self._counter("store_failures", "Commits that failed and are retried")
        self.http_unreadable = self._counter("http_unreadable", "Connections that spoke no HTTP")
        malformed = Counter(
            "hybridge_malformed", "Deliveries that are no escalation", ["kind"],
            registry=self.registry,
        )  # fmt: skip
        self.malformed = {kind: malformed.labels(kind) for kind in ("topic", "envelope")}
        refused = Counter(
            "hybridge_refused", "Escalations refused, by code", ["code"], registry=self.registry
        )
        self.refused = {code: refused.labels(code) for code in get_args(RefusalCode)}
        self.stage = StageTimes(self.registry)
        self.batch_size = Histogram(
            "hybridge_batch_size", "Samples in a batch", buckets=_SIZES, registry=self.registry
        )
        self.link_up = Gauge("hybridge_link_up", "1 while connected", registry=self.registry)

    def text(self) -> bytes:
        return generate_latest(self.registry)

    def _counter(self, name: str, what: str) -> Counter:
        return Counter(f"hybridge_{name}", what, registry=self.registry)
