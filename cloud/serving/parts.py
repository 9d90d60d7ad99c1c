"""A job of more rows than one batch takes, as several jobs. Pure.

All of it is answered or none: the first part that fails speaks for all, and the others are let go.
"""

from collections.abc import Callable

import numpy as np

from cloud.serving.job import Job, Outputs, Ran


def submit_in_parts(job: Job, rows_max: int, submit: Callable[[Job], None]) -> None:
    """Cut at `rows_max`; `submit` takes each part. Raises what it raises, with nothing left behind."""
    whole = _Whole(job, -(-len(job.rows) // rows_max))
    try:
        for index in range(len(whole.outputs)):
            submit(_Part(whole, index, slice(index * rows_max, (index + 1) * rows_max)))
    except Exception:
        whole.over = True
        raise


class _Whole:
    def __init__(self, job: Job, parts: int) -> None:
        self.job = job
        self.outputs: list[Outputs | None] = [None] * parts
        self.missing = parts
        self.over = False  # answered, or failed
        self.queue_s = self.run_s = 0.0

    def answered(self, index: int, ran: Ran) -> None:
        self.outputs[index] = ran.outputs
        self.missing -= 1
        self.queue_s = max(self.queue_s, ran.queue_s)
        self.run_s += ran.run_s
        if not self.missing and not self.over:
            self.over = True
            self.job.answered(Ran(self._joined(), self.queue_s, self.run_s))

    def failed(self, error: Exception) -> None:
        if not self.over:
            self.over = True
            self.job.failed(error)

    def _joined(self) -> Outputs:
        parts = [part for part in self.outputs if part is not None]
        return Outputs(
            np.concatenate([part.logits for part in parts]),
            np.concatenate([part.probabilities for part in parts]),
        )


class _Part(Job):
    __slots__ = ("_index", "_whole")

    def __init__(self, whole: _Whole, index: int, rows: slice) -> None:
        job = whole.job
        super().__init__(job.rows[rows], job.deadline, job.priority)
        self._whole, self._index = whole, index

    @property
    def gone(self) -> bool:
        return self._whole.over or self._whole.job.gone

    def answered(self, ran: Ran) -> None:
        self._whole.answered(self._index, ran)

    def failed(self, error: Exception) -> None:
        self._whole.failed(error)
