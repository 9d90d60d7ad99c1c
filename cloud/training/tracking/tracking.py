"""What runs were and measured: read, compared, and written as they go."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from sqlalchemy import Connection

from cloud.training.documents import Artifact, LogLine, Point, Run
from cloud.training.store import job_rows, run_rows
from cloud.training.store.database import LearningDatabase
from shared.errors import Malformed, Unknown

T = TypeVar("T")
COMPARED_MAX: Final = 16
"""Runs in one comparison: as many lines as a plot can tell apart."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Runs beside each other: what differs in what they were told, and every figure."""

    runs: tuple[Run, ...]
    parameters: dict[str, tuple[object, ...]]
    """Of those that are not the same in all, by name, one value for each run; None: it has none."""
    figures: dict[str, tuple[float | None, ...]]
    """By metric, sorted, one value for each run."""


class Tracking:
    """Everything raises `Unavailable` while the database is away."""

    def __init__(self, database: LearningDatabase) -> None:
        self._database = database

    async def run(self, job: str) -> Run:
        """Raises `Unknown`."""
        return await self._read(lambda connection: _run(connection, job))

    async def points(
        self, job: str, metric: str | None = None, after: int = -1, limit: int = 1000
    ) -> list[Point]:
        """Of steps after `after`, rising, and whole steps: more than `limit` by one step's at most.

        Raises `Unknown`.
        """

        def look(connection: Connection) -> list[Point]:
            _check_known(connection, job)
            return run_rows.points(connection, job, metric, after, limit)

        return await self._read(look)

    async def logs(self, job: str, after: int = 0, limit: int = 1000) -> list[LogLine]:
        """Lines after the one of that number. Raises `Unknown`."""

        def look(connection: Connection) -> list[LogLine]:
            _check_known(connection, job)
            return run_rows.logs(connection, job, after, limit)

        return await self._read(look)

    async def artifact(self, job: str, name: str) -> Artifact:
        """Raises `Unknown`."""

        def look(connection: Connection) -> Artifact:
            found = run_rows.artifact(connection, job, name)
            if found is None:
                raise Unknown(f"job {job} has no artifact {name}; its run lists those that it has")
            return found

        return await self._read(look)

    async def compare(self, jobs: Sequence[str]) -> Comparison:
        """Raises `Unknown`, `Malformed` for none or more than `COMPARED_MAX`."""
        if not 1 <= len(jobs) <= COMPARED_MAX:
            raise Malformed(f"{len(jobs)} runs to compare; name 1 to {COMPARED_MAX}")
        runs = await self._read(
            lambda connection: tuple(_run(connection, job) for job in jobs)
        )  # fmt: skip
        return compared(runs)

    async def _read(self, look: Callable[[Connection], T]) -> T:
        return await asyncio.to_thread(self._database.read, look)


def compared(runs: Sequence[Run]) -> Comparison:
    """Pure."""
    names = sorted({name for run in runs for name in run.parameters})
    parameters = {name: tuple(run.parameters.get(name) for run in runs) for name in names}
    metrics = sorted({name for run in runs for name in run.figures})
    return Comparison(
        tuple(runs),
        {name: values for name, values in parameters.items() if _differ(values)},
        {name: tuple(run.figures.get(name) for run in runs) for name in metrics},
    )


def _differ(values: Sequence[object]) -> bool:
    return any(value != values[0] for value in values)


def _run(connection: Connection, job: str) -> Run:
    found = run_rows.run_of(connection, job)
    if found is None:
        _check_known(connection, job)
        raise Unknown(f"job {job} has no run yet: it has not begun")
    return found


def _check_known(connection: Connection, job: str) -> None:
    if job_rows.row(connection, job) is None:
        raise Unknown(f"there is no job {job}; it may have been forgotten after its time")
