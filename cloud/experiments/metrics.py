"""Each arm's counts at `/metrics`. Labels: experiments and versions of the configuration."""

from collections.abc import Iterator, Sequence
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from cloud.experiments.arm import ArmCounts
from cloud.experiments.experiments import Running
from cloud.monitoring.stage_times import EDGES_S

_EDGES = (*map(str, EDGES_S), "+Inf")


class ExperimentMetrics(Collector):
    def __init__(self, running: Sequence[Running], registry: CollectorRegistry) -> None:
        self._running = running
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        if not self._running:
            return
        calls = _counter("calls", "Answered calls over HTTP, by arm")
        escalations = _counter("escalations", "Answered escalations, by arm")
        agreed = _counter("edge_agreed", "Escalations with the device's own label, by arm")
        failed = _counter("failed", "Calls and escalations without an answer, by arm")
        fell_back = _counter("fell_back", "Placed, but answered by the model's own version")
        rows = _counter("rows", "Answered rows, by arm")
        confidence = _counter("confidence", "Sum of the rows' confidence, by arm")
        time = HistogramMetricFamily(
            "hybridge_experiment_seconds", "Time to an answer, by arm", labels=_LABELS
        )
        for name, arm in self._arms():
            labels = [name, arm.version]
            for family, count in (
                (calls, arm.calls), (escalations, arm.escalations), (agreed, arm.edge_agreed),
                (failed, arm.failed), (fell_back, arm.fell_back), (rows, arm.rows),
                (confidence, arm.confidence_sum),
            ):  # fmt: skip
                family.add_metric(labels, count)
            buckets = zip(_EDGES, accumulate(arm.time.counts), strict=True)
            time.add_metric(labels, [(edge, float(n)) for edge, n in buckets], arm.time.sum_s)
        yield from (calls, escalations, agreed, failed, fell_back, rows, confidence, time)

    def _arms(self) -> Iterator[tuple[str, ArmCounts]]:
        for one in self._running:
            for arm in one.arms:
                yield one.settings.name, arm


_LABELS = ("experiment", "version")


def _counter(name: str, what: str) -> CounterMetricFamily:
    return CounterMetricFamily(f"hybridge_experiment_{name}", what, labels=_LABELS)
