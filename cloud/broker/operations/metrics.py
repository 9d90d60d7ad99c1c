"""The broker's state as Prometheus text: one collector that reads a `Status` when it is scraped.

Labels are bounded (reasons, QoS, names of limits), never client ids, user names or topics.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from cloud.broker.operations.status import Status

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
PREFIX: Final = "hybridge_broker_"

GAUGES: Final[Mapping[str, tuple[str, Callable[[Status], float]]]] = {
    "uptime_seconds": ("Time since the broker's start", lambda s: s.uptime_s),
    "connections": ("Open network connections", lambda s: s.connections),
    "connections_max_seen": (
        "Most network connections open at once", lambda s: s.counts.connections_max_seen,
    ),
    "subscriptions": ("Topic filters of all sessions", lambda s: s.subscriptions),
    "retained_messages": ("Retained messages", lambda s: s.retained_messages),
    "retained_bytes": ("Bytes of retained messages", lambda s: s.retained_bytes),
    "queued_messages": ("Messages waiting for sessions, not yet sent", lambda s: s.queued_messages),
    "queued_bytes": (
        "Bytes held for sessions, unacknowledged messages included", lambda s: s.queued_bytes,
    ),
    "inflight_messages": (
        "QoS>0 messages sent and not yet acknowledged", lambda s: s.inflight_messages,
    ),
}  # fmt: skip
"""What stands now, without labels."""

COUNTERS: Final[Mapping[str, tuple[str, Callable[[Status], float]]]] = {
    "packets_received": ("MQTT control packets read", lambda s: s.counts.messages_received),
    "packets_sent": ("MQTT control packets written", lambda s: s.counts.messages_sent),
    "publishes_received": ("PUBLISH packets read", lambda s: s.counts.publishes_received),
    "publishes_sent": ("PUBLISH packets written", lambda s: s.counts.publishes_sent),
    "received_bytes": ("Bytes of MQTT read", lambda s: s.counts.bytes_received),
    "sent_bytes": ("Bytes of MQTT written", lambda s: s.counts.bytes_sent),
    "sockets_opened": ("Network connections taken", lambda s: s.counts.sockets_opened),
    "connects": ("CONNECTs accepted", lambda s: s.counts.connects),
}
"""Counted since the start, without labels; exposed with `_total`."""

BY_REASON: Final[Mapping[str, tuple[str, Callable[[Status], Mapping[str, int]]]]] = {
    "messages_dropped": ("Messages that a session did not get", lambda s: s.dropped),
    "connects_refused": (
        "Network connections and CONNECTs refused", lambda s: s.counts.connects_refused,
    ),
    "publishes_refused": ("PUBLISHes refused", lambda s: s.counts.publishes_refused),
    "subscribes_refused": ("Topic filters refused", lambda s: s.counts.subscribes_refused),
    "connections_closed": ("Connections ended after their CONNECT", lambda s: s.counts.closed),
}  # fmt: skip
"""Counted since the start, with a label `reason` in lower case; exposed with `_total`."""


class _StatusCollector(Collector):
    def __init__(self, status: Status) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        status = self._status
        info = GaugeMetricFamily(f"{PREFIX}info", "1, with the version", labels=["version"])
        info.add_metric([status.version], 1)
        yield info
        sessions = GaugeMetricFamily(f"{PREFIX}sessions", "Sessions kept", labels=["state"])
        sessions.add_metric(["connected"], status.sessions_connected)
        sessions.add_metric(["offline"], status.sessions_offline)
        yield sessions
        limits = GaugeMetricFamily(f"{PREFIX}limit", "Bounds, as configured", labels=["name"])
        for name, bound in status.limits.items():
            limits.add_metric([name], bound)
        yield limits
        for name, (what, number) in GAUGES.items():
            yield GaugeMetricFamily(PREFIX + name, what, number(status))
        for name, (what, number) in COUNTERS.items():
            yield CounterMetricFamily(PREFIX + name, what, number(status))
        for name, (what, numbers) in BY_REASON.items():
            family = CounterMetricFamily(PREFIX + name, what, labels=["reason"])
            for reason, count in sorted(numbers(status).items()):
                family.add_metric([reason.lower()], count)
            yield family
        yield from self._store()

    def _store(self) -> Iterator[Metric]:
        store = self._status.store
        if store is None:
            return
        prefix = f"{PREFIX}store_"
        yield CounterMetricFamily(f"{prefix}commits", "Transactions committed", store.commits)
        yield CounterMetricFamily(f"{prefix}rows", "Rows written or deleted", store.rows)
        yield GaugeMetricFamily(
            f"{prefix}failing", "1 while commits fail and acknowledgements wait", store.is_failing
        )
        if store.last_commit_ms is not None:
            seconds = store.last_commit_ms / 1e3
            yield GaugeMetricFamily(
                f"{prefix}last_commit_seconds", "Duration of the last commit", seconds
            )


def exposition(status: Status) -> bytes:
    """Give the text of one scrape, the process's memory, CPU and file descriptors included."""
    registry = CollectorRegistry()
    registry.register(_StatusCollector(status))
    ProcessCollector(registry=registry)
    return generate_latest(registry)
