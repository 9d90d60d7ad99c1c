"""A stored request, read and answered as the synchronous route would, at a lower priority."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from cloud.api.answer import NUMBERS_INLINE_MAX, write_answer
from cloud.api.call import JSON_INLINE_BYTES_MAX, InferCall, json_bytes, read_call
from cloud.api.settings import CallLimits
from cloud.jobs.record import Claimed
from cloud.monitoring.answer_log import AnswerLog
from cloud.monitoring.log_entry import StageMs
from cloud.serving.inference import Answer
from cloud.serving.job import Priority, Rows
from cloud.serving.served import Served
from shared.errors import Refused, Unavailable
from shared.oip.body import Encoded


class Answers(Protocol):
    """`cloud.serving.inference.Inference`."""

    async def answer(
        self, served: Served, rows: Rows, deadline: float, priority: Priority
    ) -> Answer:
        """By `deadline` (`time.monotonic`). Raises `Unavailable` or `Refused`."""


class OipAnswering:
    def __init__(
        self,
        find: Callable[[str, str | None], Served],
        answers: Answers,
        limits: CallLimits,
        log: AnswerLog | None = None,
    ) -> None:
        """`find`: the model pool's; `log`: of single answers."""
        self._find, self._answers, self._limits, self._log = find, answers, limits, log

    async def answer(self, job: Claimed, deadline: float) -> Encoded:
        served = self._find(job.model, job.version)
        if json_bytes(len(job.body), job.header_length) <= JSON_INLINE_BYTES_MAX:
            call = self._read(job, served)
        else:
            call = await asyncio.to_thread(self._read, job, served)
        priority = max(call.asked.priority, Priority.NEAR_LINE)
        answer = await self._asked(job, served, call.rows, deadline, priority)

        def written() -> Encoded:
            return write_answer(
                call.asked, served.manifest, answer.outputs, served.version, answer.source
            )

        try:
            if answer.outputs.logits.size <= NUMBERS_INLINE_MAX:
                return written()
            return await asyncio.to_thread(written)
        except Unavailable as error:  # the model would say the same again
            raise Refused(str(error)) from error

    async def _asked(
        self, job: Claimed, served: Served, rows: Rows, deadline: float, priority: Priority
    ) -> Answer:
        """Each attempt is an answer or a failure of its own, in the log as in the breaker."""
        log = self._log
        try:
            answer = await self._answers.answer(served, rows, deadline, priority)
        except Exception as error:
            if log is not None:
                log.failed(served, priority, error, job.request_id, job.traceparent, job.caller)
            raise
        if log is not None and log.picks(job.request_id, answer):
            stages = StageMs(queue=answer.queue_s * 1e3, model=answer.run_s * 1e3)
            log.answered(
                served, rows, priority, answer, job.request_id, job.traceparent, job.caller, stages
            )
        return answer

    def _read(self, job: Claimed, served: Served) -> InferCall:
        return read_call(job.body, job.header_length, served.signature, self._limits)
