"""What runs were and measured, read while they go and afterwards."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy import Connection, Row

from cloud.training.documents import Artifact, JobState, LogLine, Point, Run
from cloud.training.store import job_rows, run_rows
from cloud.training.store.database import LearningDatabase
from shared.errors import Unknown

T = TypeVar("T")


class Tracking:
    """Everything raises `Unavailable` while the database is away."""

    def __init__(self, database: LearningDatabase) -> None:
        self._database = database

    async def run(self, job: str) -> Run:
        """Raises `Unknown`."""
        return await self._read(lambda connection: _run(connection, job))

    async def ended_as(self, job: str) -> JobState | None:
        """None: it has not ended. Raises `Unknown`."""

        def look(connection: Connection) -> JobState | None:
            found = _job(connection, job)
            return None if found.ended_at is None else JobState(found.state)

        return await self._read(look)

    async def points(
        self, job: str, metric: str | None = None, after: int = -1, limit: int = 1000
    ) -> list[Point]:
        """Of steps after `after`, rising, and whole steps: more than `limit` by one step's at most.

        Raises `Unknown`.
        """

        def look(connection: Connection) -> list[Point]:
            _job(connection, job)
            return run_rows.points(connection, job, metric, after, limit)

        return await self._read(look)

    async def logs(self, job: str, after: int = 0, limit: int = 1000) -> list[LogLine]:
        """Lines after the one of that number. Raises `Unknown`."""

        def look(connection: Connection) -> list[LogLine]:
            _job(connection, job)
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

    async def _read(self, look: Callable[[Connection], T]) -> T:
        return await asyncio.to_thread(self._database.read, look)


def _run(connection: Connection, job: str) -> Run:
    found = run_rows.run_of(connection, job)
    if found is None:
        _job(connection, job)
        raise Unknown(f"job {job} has no run yet: it has not begun")
    return found


def _job(connection: Connection, job: str) -> Row[*tuple[Any, ...]]:
    found = job_rows.row(connection, job)
    if found is None:
        raise Unknown(f"there is no job {job}; it may have been forgotten after its time")
    return found
