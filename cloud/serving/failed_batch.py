"""Who is to blame when a batch fails, and who runs again with whom. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cloud.serving.job import Job, Rows
from shared.errors import DeadlineMissed, Disconnected, Malformed, Overloaded

_NOBODYS = (Disconnected, Overloaded, DeadlineMissed)  # of a model on another machine
_NOT_FINITE = "the input holds NaN or an infinity; send finite numbers"


@dataclass(frozen=True, slots=True)
class Failed:
    told: tuple[tuple[Job, Exception], ...]
    again: tuple[list[Job], ...]  # batches


def sort_out(jobs: Sequence[Job], error: Exception) -> Failed:
    """`error` is what the model raised for the batch of these.

    Values that are not finite are looked for, because anybody can send them: their senders fail and
    the others share one more run. Where another machine is away or full nobody is to blame, and one
    by one each would wait for it. Else one by one, so that whoever is to blame fails alone.
    """
    if isinstance(error, _NOBODYS):
        return Failed(tuple((job, error) for job in jobs), ())
    if isinstance(error, Malformed):
        guilty = [not _finite(job.rows) for job in jobs]
        if any(guilty):
            rest = [job for job, bad in zip(jobs, guilty, strict=True) if not bad]
            told = tuple(
                (job, Malformed(_NOT_FINITE)) for job, bad in zip(jobs, guilty, strict=True) if bad
            )
            return Failed(told, (rest,) if rest else ())
    if len(jobs) == 1:
        return Failed(((jobs[0], error),), ())
    return Failed((), tuple([job] for job in jobs))


def _finite(rows: Rows) -> bool:
    return rows.dtype.kind != "f" or bool(np.isfinite(rows).all())
