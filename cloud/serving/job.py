"""What a batcher is given and gives back: rows with a deadline, and their outputs.

A job is told by a call, not by a future: the inference route answers tens of thousands of them a
second, and a future with its task would be half of what each costs. `awaited.py` is for the others.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shared.confidence import softmax

Rows = NDArray[Any]  # [n, *input shape] of the model's dtype, n >= 1
Floats = NDArray[np.float32]

_WHOLE = slice(None)


class Priority(IntEnum):
    """Lower goes first; a lower one never waits for a higher one, but for the batch that runs."""

    INTERACTIVE = 1
    NEAR_LINE = 2
    BULK = 3


class Calibrated:
    """The probabilities of a whole batch: computed once, when the first of its jobs asks.

    Half of what a batch of 16 costs beside the model itself, and many callers want logits only.
    """

    __slots__ = ("_logits", "_temperature", "_values")

    def __init__(self, logits: Floats, temperature: float) -> None:
        self._logits, self._temperature = logits, temperature
        self._values: Floats | None = None

    def values(self) -> Floats:
        """[n, classes] for logits [n, classes]."""
        if self._values is None:
            self._values = softmax(self._logits, self._temperature)
        return self._values


class Outputs:
    """What a model says to a batch or a part of one: the same rows in both arrays.

    `probabilities` may be given as they are or as those of a batch, of which this is `part`.
    A part keeps its batch's arrays alive: copy what is to be kept for long.
    """

    __slots__ = ("_part", "_probabilities", "logits")

    def __init__(
        self, logits: Floats, probabilities: Floats | Calibrated, part: slice = _WHOLE
    ) -> None:
        self.logits = logits  # [n, classes], as the graph gives them
        self._probabilities, self._part = probabilities, part

    @property
    def probabilities(self) -> Floats:
        """[n, classes], calibrated."""
        found = self._probabilities
        if isinstance(found, Calibrated):
            found = self._probabilities = found.values()[self._part]
        return found

    def __getitem__(self, part: slice) -> "Outputs":
        found = self._probabilities
        if self._part is _WHOLE and isinstance(found, Calibrated):
            return Outputs(self.logits[part], found, part)
        return Outputs(self.logits[part], self.probabilities[part])


@dataclass(slots=True)  # not frozen: that would triple what making one costs, and each job has one
class Ran:
    """One job's outputs with its two stages."""

    outputs: Outputs
    queue_s: float
    run_s: float


class Job:
    """Rows that want outputs by `deadline`, a time of the batcher's clock (`time.monotonic`)."""

    __slots__ = ("added", "deadline", "priority", "rows")

    def __init__(
        self, rows: Rows, deadline: float, priority: Priority = Priority.INTERACTIVE
    ) -> None:
        self.rows, self.deadline, self.priority = rows, deadline, priority
        self.added = 0.0  # set by the batcher

    @property
    def gone(self) -> bool:
        """Whoever asked has left: nothing need be computed any more."""
        return False

    def answered(self, ran: Ran) -> None:
        """Called once, on the event loop, unless `failed` is. Must not raise."""
        raise NotImplementedError

    def failed(self, error: Exception) -> None:
        """Called once, on the event loop, unless `answered` is. Must not raise."""
        raise NotImplementedError
