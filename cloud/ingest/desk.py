"""One escalation to one reply: the stored answer, a fresh one, or a refusal that says why."""

import logging
import time

import numpy as np

from cloud.experiments.arm import ArmCounts
from cloud.experiments.experiments import Experiments
from cloud.ingest.decode import Received
from cloud.ingest.memory import AnswerMemory
from cloud.monitoring.answer_log import AnswerLog
from cloud.monitoring.log_entry import StageMs
from cloud.monitoring.metrics import Metrics
from cloud.serving.batcher import Draining
from cloud.serving.inference import Inference
from cloud.serving.job import Priority
from cloud.serving.model import UnknownDictionary
from cloud.serving.pool import ModelPool
from cloud.serving.refusal import QueueFull
from cloud.serving.served import Served
from cloud.store.lookup import AnswerLookup
from cloud.store.sample_row import Feedback, Key
from shared.errors import DeadlineMissed, Refused, Unavailable, Unknown
from shared.logs import OncePer
from shared.wire.envelope import CloudAnswer, Downlink, Refusal, RefusalCode

log = logging.getLogger(__name__)

_RETRY_MS_MIN = 50  # a queue drains in batches; asking again sooner only fills it
_RETRY_FAULT_MS = 5_000  # a fault of ours: time for a restart
_RETRY_DEPLOY_MS = 60_000  # what is missing here is a bundle, and people deploy those
_DRAIN_MS = 1_000
_LOG_PERIOD_S = 60.0


class Desk:
    def __init__(
        self, pool: ModelPool, inference: Inference, memory: AnswerMemory, lookup: AnswerLookup,
        metrics: Metrics, log: AnswerLog | None = None, experiments: Experiments | None = None,
    ) -> None:  # fmt: skip
        self._pool, self._inference = pool, inference
        self._memory, self._lookup, self._metrics = memory, lookup, metrics
        self._log, self._experiments = log, experiments
        self._once = OncePer(_LOG_PERIOD_S)

    async def reply(self, received: Received, now: float) -> tuple[Downlink, Feedback | None]:
        """The reply, and what is to be stored of it: nothing for a refusal or a repetition.

        `now` is the batchers' time (`time.monotonic`) of its arrival; budgets count from it.
        """
        key = received.device, received.escalation.id
        if (known := await self._known(key)) is not None:
            self._metrics.duplicates.inc()
            return known, None
        try:
            answer = await self._fresh(received, now)
        except Exception as error:  # noqa: BLE001  every escalation gets a reply
            refusal = self._refusal(received, error)
            self._metrics.refused[refusal.code].inc()
            return refusal, None
        self._memory.keep(key, answer)
        return answer, Feedback(received.device, received.escalation, answer, time.time())

    async def _known(self, key: Key) -> CloudAnswer | None:
        if (known := self._memory.find(key)) is not None:
            return known
        try:
            known = await self._lookup.find(key)
        except Unavailable:
            return None  # the store is away; answering twice is better than not at all
        if known is not None:
            self._memory.keep(key, known)
        return known

    async def _fresh(self, received: Received, now: float) -> CloudAnswer:
        escalation = received.escalation
        served = self._pool.answering(escalation.model)
        arm = None
        if self._experiments and (
            placed := self._experiments.place(served.name, received.device)
        ):  # fmt: skip
            served, arm = placed.served, placed.arm
        try:
            return await self._answered(received, served, now, arm)
        except Exception:
            if arm is not None:
                arm.did_not_answer()
            raise

    async def _answered(
        self, received: Received, served: Served, now: float, arm: ArmCounts | None
    ) -> CloudAnswer:
        escalation = received.escalation
        started = time.perf_counter()
        rows = served.model.decode(escalation.payload)[None]
        decode_s = time.perf_counter() - started
        self._metrics.stage["decode"].observe(decode_s)
        answer = await self._inference.answer(served, rows, now + escalation.budget_ms / 1e3)
        if answer.source == "rule":  # the device has a model, which knows better than a rule
            raise Unavailable(f"{served.name} cannot answer for now")
        probabilities = answer.outputs.probabilities[0]
        self._metrics.stage["queue"].observe(answer.queue_s)
        self._metrics.stage["model"].observe(answer.run_s)
        if not np.isfinite(probabilities).all():
            raise Refused(f"{served.name}: no finite answer to this sample")
        if arm is not None:
            arm.escalation_answered(answer.outputs, escalation.edge_label, time.monotonic() - now)
        sample = str(escalation.id)
        if self._log is not None and self._log.picks(sample, answer):
            self._log.answered(
                served, rows, Priority.INTERACTIVE, answer, sample, escalation.traceparent,
                received.device,
                StageMs(decode=decode_s * 1e3, queue=answer.queue_s * 1e3, model=answer.run_s * 1e3),
            )  # fmt: skip
        return CloudAnswer(
            escalation.id, served.name, served.version, probabilities,
            round(answer.queue_s * 1e3, 3), round(answer.run_s * 1e3, 3),
        )  # fmt: skip

    def _refusal(self, received: Received, error: Exception) -> Refusal:
        sample = received.escalation.id
        code: RefusalCode
        retry_ms: int | None = None
        match error:
            case QueueFull():
                code, retry_ms = "overloaded", max(_RETRY_MS_MIN, int(error.retry_after_s * 1e3))
            case DeadlineMissed():
                code = "too_late"
            case Draining():
                code, retry_ms = "draining", _DRAIN_MS
            case UnknownDictionary():
                code, retry_ms = "unknown_dictionary", _RETRY_DEPLOY_MS
            case Unknown():
                code, retry_ms = "unknown_model", _RETRY_DEPLOY_MS
            case Refused():
                code = "malformed"
            case Unavailable() if error.retry_after_s is not None:  # loading, or left alone
                code, retry_ms = "overloaded", max(_RETRY_MS_MIN, int(error.retry_after_s * 1e3))
            case _:
                return self._fault(received, error)
        held = self._once.admits(code, time.monotonic())
        if held is not None:
            log.warning(
                "escalation_refused",
                extra={"code": code, "device": received.device, "why": str(error), "held": held},
            )
        return Refusal(sample, code, str(error), retry_ms)

    def _fault(self, received: Received, error: Exception) -> Refusal:
        self._metrics.failures.inc()
        if self._once.admits("fault", time.monotonic()) is not None:
            log.error("escalation_failed", extra={"device": received.device}, exc_info=error)
        message = "the cloud failed on this sample; send it again later"
        return Refusal(received.escalation.id, "overloaded", message, _RETRY_FAULT_MS)
