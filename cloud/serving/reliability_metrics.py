"""Breakers and fallbacks in Prometheus' terms: plain counts, read when somebody asks."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from cloud.serving.breaker import Breaker
from cloud.serving.failures import Failure
from cloud.serving.fallback import Fallen

_STATES = {"closed": 0.0, "half-open": 0.5, "open": 1.0}


class ReliabilityMetrics(Collector):
    """Labels are the names of models that are or were loaded, kinds of failure, sources."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._breakers: dict[str, Breaker] = {}
        self._fallen: Counter[tuple[str, Failure, str]] = Counter()
        registry.register(self)

    def watch(self, model: str, breaker: Breaker) -> None:
        """Show this one for `model` from now on: another version has taken over."""
        self._breakers[model] = breaker

    def fell(self, model: str, failure: Failure, fallen: Fallen) -> None:
        self._fallen[model, failure, fallen.source] += 1

    def collect(self) -> Iterator[Metric]:
        states = GaugeMetricFamily(
            "hybridge_breaker_open",
            "1: the model is left alone; 0.5: it is tried",
            labels=["model"],
        )
        opened = CounterMetricFamily(
            "hybridge_breaker_opened", "How often a model was left alone", labels=["model"]
        )
        held = CounterMetricFamily(
            "hybridge_breaker_held_back",
            "Requests that a broken model was spared",
            labels=["model"],
        )
        fallen = CounterMetricFamily(
            "hybridge_fallbacks", "Answers that stand for a model's, by why and by whose they are",
            labels=["model", "failure", "source"],
        )  # fmt: skip
        for model, breaker in self._breakers.items():
            states.add_metric([model], _STATES[breaker.state])
            opened.add_metric([model], breaker.opened)
            held.add_metric([model], breaker.held_back)
        for (model, failure, source), count in self._fallen.items():
            fallen.add_metric([model, failure, source], count)
        yield from (states, opened, held, fallen)
