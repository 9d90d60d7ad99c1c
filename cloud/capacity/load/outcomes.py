"""What an open loop found. Pure.

A request's latency counts from the time it was due, not from when the client came to send it: a
server that stalls is charged for every request that would have come meanwhile (coordinated
omission; Gil Tene, "How NOT to Measure Latency", 2015).
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

ANSWERED: Final = range(200, 300)
REFUSED: Final = (429, 503, 504)
"""With 504 where the deadline cannot be met; whether it came soon enough, its time says."""
Floats = NDArray[np.float64]


class Phase(BaseModel):
    """What an open loop saw; latencies count from the time that a request was due."""

    model_config = ConfigDict(frozen=True)

    asked_per_second: float
    seconds: float
    answered: int
    refused: int
    failed: int
    """Neither an answer nor a refusal with 429, 503 or 504."""
    answered_p50_ms: float
    answered_p99_ms: float
    refused_p50_ms: float
    refused_p99_ms: float
    late_p99_ms: float
    """From due to sent: with all connections busy a request waits here, too."""
    lag_p99_ms: float = 0.0
    """How late the load generator itself noticed that a request was due: what it adds to every
    figure here."""
    answers_per_second: float = 0.0
    """That came within the time, whenever they were due: what comes after the end is no rate."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """One entry a request, in the order of `due`; seconds from the start of the load.

    `noticed`: when the generator took it up. `status` 0: there was no answer, and `done` means
    nothing; `sent` 0 with it: it never left.
    """

    due: Floats
    noticed: Floats
    sent: Floats
    done: Floats
    status: NDArray[np.int64]

    @classmethod
    def together(cls, parts: Sequence["Outcomes"]) -> "Outcomes":
        """Of several generators that ran at once."""
        columns = [
            np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(cls)
        ]
        order = np.argsort(columns[0], kind="stable")
        return cls(*(column[order] for column in columns))

    def between(self, begins: float, ends: float) -> Self:
        """Those that were due from `begins` up to `ends`."""
        wanted = (self.due >= begins) & (self.due < ends)
        return type(self)(*(getattr(self, one.name)[wanted] for one in fields(self)))

    @property
    def is_answered(self) -> NDArray[np.bool_]:
        return (self.status >= ANSWERED.start) & (self.status < ANSWERED.stop)

    @property
    def is_refused(self) -> NDArray[np.bool_]:
        return np.isin(self.status, REFUSED)


def phase(found: Outcomes, begins: float, ends: float) -> Phase:
    """Sum up the requests that were due between two times."""
    part = found.between(begins, ends)
    took_ms = (part.done - part.due) * 1e3
    answered, refused = took_ms[part.is_answered], took_ms[part.is_refused]
    in_time = found.is_answered & (found.done >= begins) & (found.done < ends)
    return Phase(
        asked_per_second=len(part.due) / (ends - begins),
        seconds=ends - begins,
        answered=len(answered),
        refused=len(refused),
        failed=len(part.due) - len(answered) - len(refused),
        answered_p50_ms=_percentile(answered, 50),
        answered_p99_ms=_percentile(answered, 99),
        refused_p50_ms=_percentile(refused, 50),
        refused_p99_ms=_percentile(refused, 99),
        late_p99_ms=_percentile(((part.sent - part.due) * 1e3)[part.status > 0], 99),
        lag_p99_ms=_percentile((part.noticed - part.due) * 1e3, 99),
        answers_per_second=int(in_time.sum()) / (ends - begins),
    )


def _percentile(values: Floats, percent: float) -> float:
    return float(np.percentile(values, percent)) if len(values) else 0.0
