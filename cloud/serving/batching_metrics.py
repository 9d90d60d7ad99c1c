"""Batches in Prometheus' terms: how many, and why each left, read when somebody asks."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from cloud.serving.pool import ModelPool


class BatchingMetrics(Collector):
    """Labels are loaded models and versions, reasons, priorities."""

    def __init__(self, pool: ModelPool, registry: CollectorRegistry) -> None:
        self._pool = pool
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        of = ["model", "version"]
        left = CounterMetricFamily(
            "hybridge_batches_left", "Batches, by why they left their queue", labels=[*of, "why"]
        )
        urgent = CounterMetricFamily(
            "hybridge_batches_by_priority", "Batches, by their most urgent job",
            labels=[*of, "priority"],
        )  # fmt: skip
        missed = CounterMetricFamily(
            "hybridge_accepted_late", "Requests accepted and then not answered in time", labels=of
        )
        raised = CounterMetricFamily(
            "hybridge_batch_callbacks_raised", "Answers that could not be handed over; see log",
            labels=of,
        )  # fmt: skip
        busy = CounterMetricFamily(
            "hybridge_model_busy_seconds", "Seconds in which the model ran", labels=of
        )
        depth = GaugeMetricFamily("hybridge_queue_depth", "Rows that wait for a batch", labels=of)
        memory = GaugeMetricFamily("hybridge_model_bytes", "Memory of a loaded model", labels=of)
        for served in self._pool.served:
            name, batcher = [served.name, served.version], served.batcher
            for why, count in batcher.left.items():
                left.add_metric([*name, why], count)
            for priority, count in batcher.left_by_priority.items():
                urgent.add_metric([*name, priority.name.lower()], count)
            missed.add_metric(name, batcher.missed)
            raised.add_metric(name, batcher.failed_callbacks)
            busy.add_metric(name, batcher.busy_s)
            depth.add_metric(name, batcher.depth)
            memory.add_metric(name, served.memory_bytes)
        yield from (left, urgent, missed, raised, busy, depth, memory)
