"""Tell jobs how they ended. One that raises is logged and counted, and hurts nobody else.

Writing to a closed uvloop transport raises, for one: without this guard its batch mates would wait
for ever.
"""

import logging
import time
from collections.abc import Callable, Iterable

from cloud.serving.batch import Batch
from cloud.serving.failed_batch import Failed
from cloud.serving.job import Job, Outputs, Ran
from shared.errors import DeadlineMissed
from shared.logs import OncePer

log = logging.getLogger(__name__)

Predicted = tuple[Outputs | Failed, float, float]  # when it started and ended

_LOG_PERIOD_S = 60.0
_LATE = "others were ahead, or the machine is slower than measured; send it again"


class Telling:
    def __init__(self) -> None:
        self._once = OncePer(_LOG_PERIOD_S)
        self.missed = self.raised = 0

    def ended(self, batch: Batch[Job], ran: Predicted) -> None:
        """To each its part of the outputs, or why not; nothing to those who run again."""
        outputs, started, ended = ran
        if isinstance(outputs, Failed):
            for job, error in outputs.told:
                self._fail(job, error)
            return
        run_s = ended - started
        at = 0
        for job in batch.jobs:
            end = at + len(job.rows)
            try:
                job.answered(Ran(outputs[at:end], started - job.added, run_s))
            except Exception as raised:  # noqa: BLE001  whatever it is, it is this job's own
                self._raised("answered", raised)
            at = end

    def late(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            self.missed += 1
            self._fail(job, DeadlineMissed(_LATE))

    def counted(self, on_batch: Callable[[int, float], None], rows: int, run_s: float) -> None:
        try:
            on_batch(rows, run_s)
        except Exception as error:  # noqa: BLE001  what counts must not stop what it counts
            self._raised("on_batch", error)

    def _fail(self, job: Job, error: Exception) -> None:
        try:
            job.failed(error)
        except Exception as raised:  # noqa: BLE001  whatever it is, it is this job's own
            self._raised("failed", raised)

    def _raised(self, which: str, error: Exception) -> None:
        self.raised += 1
        held = self._once.admits(which, time.monotonic())
        if held is not None:
            log.error(
                "batch_callback_raised", extra={"callback": which, "held": held}, exc_info=error
            )
