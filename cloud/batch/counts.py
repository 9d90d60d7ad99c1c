"""What near-line jobs count. Labels are the jobs' names, from the configuration."""

from prometheus_client import CollectorRegistry, Counter, Gauge


class NearLineCounts:
    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, what: str, *labels: str) -> Counter:
            return Counter(f"hybridge_nearline_{name}", what, ["job", *labels], registry=registry)

        def gauge(name: str, what: str) -> Gauge:
            return Gauge(f"hybridge_nearline_{name}", what, ["job"], registry=registry)

        self.windows = counter(
            "windows", "Windows, by how they ended: complete, late, empty, failed, elsewhere",
            "ended",
        )  # fmt: skip
        self.rows = counter("rows", "Rows answered")
        self.inputs = counter("inputs", "Inputs finished, by result: done, failed", "result")
        self.late = counter("late", "Inputs that a window left for the next, each time anew")
        self.behind = gauge("behind_windows", "Windows in a row that left work undone")
        self.waits = counter("waits", "Batches that the online tier put off")
        self.buffered = gauge("buffered_messages", "Messages that wait on disk")
        self.messages = counter(
            "messages", "Messages of a topic, by result: kept, copy, empty, too_large", "result"
        )
        self.buffer_full = counter("buffer_full", "Times that messages were left with the broker")
