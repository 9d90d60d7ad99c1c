"""What one process says and does for all of them.

A connection reaches any one process of a port. Whoever asks for metrics or status means all, and a
model that is loaded into one must be loaded into each.
"""

import json
import logging
from collections.abc import Callable, Sequence

from cloud.api.schemas import Status
from cloud.experiments.experiments import Experiments
from cloud.experiments.report import Reports, reports, together
from cloud.monitoring.metrics import Metrics
from cloud.processes.siblings import Said, Siblings, merged_metrics
from cloud.serving.pool import ModelPool
from cloud.serving.served import Served
from shared.errors import Unavailable

log = logging.getLogger(__name__)

_OK = 200


class Together:
    """`siblings` None: this process is alone."""

    def __init__(
        self,
        pool: ModelPool,
        status: Callable[[], Status],
        metrics: Metrics,
        siblings: Siblings | None,
        experiments: Experiments | None = None,
    ) -> None:
        self._pool, self._status, self._metrics = pool, status, metrics
        self._siblings, self._experiments = siblings, experiments

    def own_metrics(self) -> bytes:
        return self._metrics.text()

    async def metrics(self) -> bytes:
        """Prometheus text; of several processes with the label `process`."""
        if self._siblings is None:
            return self.own_metrics()
        said = await self._siblings.ask("GET", "/metrics")
        texts = {one.index: one.body for one in said if one.status == _OK}
        return merged_metrics({self._siblings.own_index: self.own_metrics(), **texts})

    async def status(self) -> Status:
        """Of several processes: the first reason not to be ready, the sums, the worst times."""
        own = self._status()
        if self._siblings is None:
            return own
        said = await self._siblings.ask("GET", "/v1/status")
        return merged_status(own, said)

    async def experiments(self) -> Reports:
        """Of several processes the sums; one that does not answer is left out."""
        own = reports(() if self._experiments is None else self._experiments.running)
        if self._siblings is None:
            return own
        said = await self._siblings.ask("GET", "/v1/experiments")
        return together(own, [Reports.model_validate_json(s.body) for s in said if s.status == _OK])

    async def load(self, name: str, version: str | None = None) -> Served:
        """As `ModelPool.load`, in every process; raises `Unavailable` where one did not manage."""
        served = await self._pool.load(name, version)
        await self._everywhere(f"/models/{name}/load", served.version)
        return served

    async def unload(self, name: str, version: str | None = None) -> None:
        """As `ModelPool.unload`, in every process."""
        await self._pool.unload(name, version)
        await self._everywhere(f"/models/{name}/unload", version)

    async def _everywhere(self, path: str, version: str | None) -> None:
        if self._siblings is None:
            return
        body = json.dumps({"version": version}).encode()
        said = await self._siblings.ask("POST", path, body)
        if missing := [one for one in said if one.status != _OK]:
            why = missing[0].body.decode("utf-8", "replace")[:300] or "it did not answer"
            raise Unavailable(
                f"done in {len(said) + 1 - len(missing)} of {len(said) + 1} processes; "
                f"process {missing[0].index}: {why}; ask again"
            )


def merged_status(own: Status, said: Sequence[Said]) -> Status:
    """Pure."""
    others = [Status.model_validate_json(one.body) for one in said if one.status == _OK]
    every = [own, *others]
    because = next((s.not_ready_because for s in every if not s.ready), None)
    if because is None and len(others) < len(said):
        because = "a serving process does not answer"
    return own.model_copy(
        update={
            "ready": because is None,
            "not_ready_because": because,
            "processes": len(said) + 1,
            "in_hand": sum(s.in_hand for s in every),
            "store_up": all(s.store_up for s in every),
            "jobs_up": all(s.jobs_up for s in every),
            "busy_share": max(s.busy_share for s in every),
            "queue_depth": sum(s.queue_depth for s in every),
            "near_line": tuple(window for s in every for window in s.near_line),
            "p99_ms": max((s.p99_ms for s in every if s.p99_ms is not None), default=None),
        }
    )
