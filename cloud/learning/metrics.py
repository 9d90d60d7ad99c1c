"""What the learning process counts, beside the HTTP API's own. Labels are bounded: fixed words."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


class LearningMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Histogram(
            "hybridge_learning_request_seconds", "Requests that were answered, by operation",
            ["operation"], buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        self.cycles = Gauge(
            "hybridge_learning_cycles", "Cycles that run", registry=registry
        )  # fmt: skip
        self.ended = Counter(
            "hybridge_learning_cycles_ended", "Cycles that ended, by how", ["phase"],
            registry=registry,
        )  # fmt: skip
        self.checks_failed = Gauge(
            "hybridge_learning_feature_checks_failed",
            "Loops' teachers whose newest check found training and serving to differ", registry=registry,
        )  # fmt: skip
        self.checks_unmade = Gauge(
            "hybridge_learning_feature_checks_unmade",
            "Loops' teachers with samples whose last check could not be made", registry=registry,
        )  # fmt: skip
        self.jobs = Gauge(
            "hybridge_learning_jobs", "Training jobs, by state", ["state"], registry=registry
        )
        self.rows = Gauge(
            "hybridge_learning_feedback_rows", "Samples in the feedback store", registry=registry
        )
        self.unreadable = Counter(
            "hybridge_http_unreadable", "Connections that spoke no HTTP", registry=registry
        )
