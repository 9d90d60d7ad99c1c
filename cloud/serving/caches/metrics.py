"""The caches' figures in Prometheus' terms: plain counts, read when somebody asks."""

from collections.abc import Iterator, Sized
from typing import Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from cloud.serving.caches.counts import LookUps


class Counted(Sized, Protocol):
    """A cache that counts its look-ups."""

    @property
    def look_ups(self) -> LookUps: ...


class CacheMetrics(Collector):
    """`caches` by the names that they get in the label `cache`: "result", "feature"."""

    def __init__(self, caches: dict[str, Counted], registry: CollectorRegistry) -> None:
        self._caches = caches
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        look_ups = CounterMetricFamily(
            "hybridge_cache_lookups", "Look-ups, by what came of them", labels=["cache", "outcome"]
        )
        entries = GaugeMetricFamily("hybridge_cache_entries", "Row sets kept", labels=["cache"])
        for name, cache in self._caches.items():
            counts = cache.look_ups
            for outcome, count in (
                ("fresh", counts.fresh), ("missed", counts.missed), ("stale", counts.stale),
                ("stale_missed", counts.stale_missed), ("shared", counts.shared),
            ):  # fmt: skip
                look_ups.add_metric([name, outcome], count)
            entries.add_metric([name], len(cache))
        yield look_ups
        yield entries
