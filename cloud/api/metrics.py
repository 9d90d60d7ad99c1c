"""What the API counts. Labels are bounded: statuses, kinds of problem, fixed words."""

from prometheus_client import CollectorRegistry, Counter, Gauge


class ApiMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.problems = Counter(
            "hybridge_http_problems", "HTTP requests that were refused or failed",
            ["status", "kind"], registry=registry,
        )  # fmt: skip
        self.connections = Gauge("hybridge_http_connections", "Open connections", registry=registry)
        self.body_bytes = Gauge(
            "hybridge_http_body_bytes", "Bodies of the requests in hand", registry=registry
        )
        closed = Counter(
            "hybridge_http_connections_cut", "Connections that the server closed for a reason",
            ["reason"], registry=registry,
        )  # fmt: skip
        self.refused_for_room = closed.labels("no_room")
        self.closed_for_room = closed.labels("idle_for_room")
        self.slow_head = closed.labels("slow_head")
        self.stalled = closed.labels("stalled_reader")
