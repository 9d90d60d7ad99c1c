"""What runs were and measured, read while they go and afterwards."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection

from cloud.training.documents import Artifact, LogLine, Point, Run
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

    async def _read(self, look: Callable[[Connection], T]) -> T:
        return await asyncio.to_thread(self._database.read, look)


def _run(connection: Connection, job: str) -> Run:
    found = run_rows.run_of(connection, job)
    if found is None:
        _check_known(connection, job)
        raise Unknown(f"job {job} has no run yet: it has not begun")
    return found


def _check_known(connection: Connection, job: str) -> None:
    if job_rows.row(connection, job) is None:
        raise Unknown(f"there is no job {job}; it may have been forgotten after its time")
