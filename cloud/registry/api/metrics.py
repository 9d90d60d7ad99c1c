"""What a registry counts, beside the HTTP API's own. Labels are bounded: fixed words, states."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


class RegistryMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, what: str) -> Counter:
            return Counter(f"hybridge_registry_{name}", what, registry=registry)

        def gauge(name: str, what: str) -> Gauge:
            return Gauge(f"hybridge_registry_{name}", what, registry=registry)

        self.requests = Histogram(
            "hybridge_registry_request_seconds", "Requests that were answered, by operation",
            ["operation"], buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        self.downloads = gauge("downloads", "Artifacts being sent")
        self.sent_bytes = counter("sent_bytes", "Bytes of artifacts sent")
        self.downloads_cut = counter("downloads_cut", "Downloads cut because the file failed")
        self.uploads = gauge("uploads", "Upload requests under way")
        self.received_bytes = counter("received_bytes", "Bytes of uploads taken")
        self.evaluators = gauge("evaluators", "Evaluator processes that run")
        self.evaluator_ends = counter("evaluator_ends", "Evaluator processes that died")
        self.changes = Counter(
            "hybridge_registry_changes", "Entries of the log since this process began, by kind",
            ["kind"], registry=registry,
        )  # fmt: skip
        self.evaluations = Counter(
            "hybridge_registry_evaluations", "Evaluations that ended since this process began",
            ["state"], registry=registry,
        )  # fmt: skip
        self.log_seq = gauge("log_seq", "The log's last entry")
        self.behind = gauge("behind", "Entries of the home that this replica lacks")
        self.writable = gauge("writable", "1 where this registry takes changes")
        self.timestamp_due = gauge(
            "timestamp_due_seconds", "Unix time from which a new timestamp is signed"
        )
        self.deltas = counter("deltas", "Deltas made and published")
        self.deltas_not_worth_it = counter(
            "deltas_not_worth_it", "Deltas over 60% of the full file"
        )
        self.collected_bytes = counter("collected_bytes", "Bytes that garbage collection freed")
        self.corrupt = counter("corrupt", "Artifacts that a scrub found with another hash")
        self.unreadable = Counter(
            "hybridge_http_unreadable", "Connections that spoke no HTTP", registry=registry
        )
