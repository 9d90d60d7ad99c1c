"""The inference tier of one process, without sockets: models, and what stands around them."""

import asyncio
import logging
import os
import random

from cloud.config import Config
from cloud.experiments.experiments import Experiments
from cloud.experiments.metrics import ExperimentMetrics
from cloud.gateway.counts import GatewayCounts
from cloud.gateway.gateway import Gateway
from cloud.jobs.answering import OipAnswering
from cloud.jobs.counts import JobCounts
from cloud.jobs.service import Jobs
from cloud.monitoring.answer_log import AnswerLog
from cloud.monitoring.inference_log import InferenceLog
from cloud.monitoring.log_entry import StageMs
from cloud.monitoring.metrics import Metrics
from cloud.monitoring.recent_load import RecentLoad
from cloud.serving.batching_metrics import BatchingMetrics
from cloud.serving.caches.feature_cache import FeatureCache
from cloud.serving.caches.metrics import CacheMetrics
from cloud.serving.caches.result_cache import ResultCache
from cloud.serving.inference import Answer, Inference
from cloud.serving.job import Priority, Rows
from cloud.serving.pool import ModelPool
from cloud.serving.queues import Queues
from cloud.serving.reliability_metrics import ReliabilityMetrics
from cloud.serving.served import Served
from cloud.updates.bundles import Bundles
from cloud.updates.updates import Updates

log = logging.getLogger(__name__)


class Tier:
    """Needs a running event loop. Raises `Malformed` for a file of the settings with a mistake."""

    def __init__(self, config: Config, metrics: Metrics) -> None:
        registry, self._reliability = metrics.registry, config.reliability
        bundles, pool = Bundles(config.state_dir), config.pool
        if config.registry is not None:
            pool = pool.model_copy(update={"folder": bundles.folder})
        self.pool = ModelPool(
            config.models, pool=pool, batching=config.batching,
            cache_dir=config.state_dir / "engines",
            on_batch=lambda rows, _run_s: metrics.batch_size.observe(rows),
        )  # fmt: skip
        self.updates: Updates | None = None
        if config.registry is not None:
            self.updates = Updates(
                config.registry,
                bundles,
                self.pool,
                config.name,
                random.Random(),  # noqa: S311  jitter
            )
        BatchingMetrics(self.pool, registry)
        results, features = ResultCache(config.result_cache), FeatureCache(config.feature_cache)
        CacheMetrics({"result": results, "feature": features}, registry)
        self.inference = Inference(
            config.reliability, results, ReliabilityMetrics(registry),
            Queues(self.pool, features).of,
        )  # fmt: skip
        self.experiments = Experiments(config.experiments, self.pool.find)
        ExperimentMetrics(self.experiments.running, registry)
        self.gateway = Gateway(config.gateway, GatewayCounts(registry))
        self._log = InferenceLog(config.inference_log, config.state_dir, registry)
        self.log = AnswerLog(self._log)
        answering = OipAnswering(self.pool.find, self.inference, config.api.calls, self.log)
        self.jobs = Jobs(config.jobs_url, config.jobs, answering, JobCounts(registry))
        self.load = RecentLoad()

    async def start(self) -> None:
        """Load the models; raises what the first that fails raises."""
        if self.updates is not None:
            await self.updates.prepare()
        await self.pool.start()
        if self.updates is not None:
            await self.updates.start()
        for served in self.pool.served:
            if served.manifest.task == "classify":
                self.inference.guard(served)  # a rule that does not fit its model is known now
        for name in sorted(self._reliability.keys() - {known.name for known in self.pool.index()}):
            log.warning("reliability_of_no_model", extra={"model": name})  # one may come later
        self._log.start()

    @property
    def why_not_ready(self) -> str | None:
        """None once every model is there, of the configuration and of the registry."""
        here = self.pool.why_not_ready
        return here or (self.updates.why_not_ready if self.updates is not None else None)

    async def close(self) -> None:
        """Every model, and the log's last lines."""
        await self.pool.close()
        await asyncio.to_thread(self._log.close)

    async def answer_window(
        self, served: Served, rows: Rows, deadline: float, priority: Priority
    ) -> Answer:
        """As `Inference.answer`, for a near-line window, whose answers are logged as others are."""
        answer = await self.inference.answer(served, rows, deadline, priority)
        request_id = os.urandom(8).hex()
        if self.log.picks(request_id, answer):
            stages = StageMs(queue=answer.queue_s * 1e3, model=answer.run_s * 1e3)
            self.log.answered(served, rows, priority, answer, request_id, "", "near-line", stages)
        return answer

    def tick(self, now: float) -> None:
        """Called about once a second."""
        self.load.tick(now, self.pool.busy_s)
        self._log.flush()
