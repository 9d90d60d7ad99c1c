"""Counts what happens in the log since this process began, whoever wrote it."""

import asyncio

from cloud.registry.api.metrics import RegistryMetrics
from cloud.registry.catalog import changes
from cloud.registry.registry import Registry
from shared.errors import HybridgeError, Malformed

_ENTRIES = 1000
_READS_MAX = 10
"""Of one look: the rest of a long gap (a replica that catches up) is counted by the next."""


class ChangeCounts:
    def __init__(self, registry: Registry, metrics: RegistryMetrics) -> None:
        self._registry, self._metrics = registry, metrics
        self._seq: int | None = None
        self._one = asyncio.Lock()

    async def look(self) -> None:
        """Bring the figures up to date. A catalog that is away leaves them as they were."""
        status = self._registry.replication.status()
        self._metrics.behind.set(status.behind)
        self._metrics.writable.set(self._registry.replication.is_home)
        async with self._one:
            try:
                await asyncio.to_thread(self._count)
            except HybridgeError:
                return

    def _count(self) -> None:
        catalog = self._registry.catalog
        if self._seq is None:
            self._seq = catalog.head().seq
        for _ in range(_READS_MAX):
            entries = catalog.log(self._seq, _ENTRIES)
            for entry in entries:
                self._metrics.changes.labels(entry.kind[:40]).inc()
                try:
                    change = changes.change_of(entry)
                except Malformed:
                    continue
                if isinstance(change, changes.EvaluationEnded):
                    self._metrics.evaluations.labels(change.state).inc()
            if not entries:
                break
            self._seq = entries[-1].seq
        self._metrics.log_seq.set(self._seq)
