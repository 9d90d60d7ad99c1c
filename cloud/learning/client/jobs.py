"""Training jobs: handing in, watching, steering; workers and quotas."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from cloud.fleet.client.reading import many, one, read
from cloud.learning.client.fetching import fetch
from cloud.learning.client.pages import JobPage
from cloud.learning.client.settings import LearningClientSettings
from cloud.registry.client.answers import parsed
from cloud.registry.client.connection import Connection, quoted
from cloud.registry.client.uploads import Moved
from cloud.training.documents import (
    Artifact,
    Job,
    JobSpec,
    JobState,
    LogLine,
    Point,
    Quota,
    Run,
    WorkerState,
)
from shared.errors import TooLarge

_PATH: Final = "/v1/jobs"


class Jobs:
    """Of one `LearningClient`; raises as it does."""

    def __init__(self, connection: Connection, settings: LearningClientSettings) -> None:
        self._connection: Final = connection
        self._settings: Final = settings

    async def submit(self, spec: JobSpec, once: str) -> Job:
        """`once` names this very call: sent again after a lost line, it makes no second job."""
        body = spec.model_dump_json(exclude_none=True).encode()
        headers = {"Content-Type": "application/json", "Idempotency-Key": once}
        answer = await self._connection.call(
            "POST", _PATH, headers=headers, body=body, length=len(body), is_repeatable=True
        )
        return read(Job, parsed(answer, _PATH, "learning process"), _PATH)

    async def all(
        self, state: JobState | None = None, team: str | None = None, at_most: int | None = None
    ) -> list[Job]:
        """The newest first, page by page. Raises `TooLarge` over `rows_max`."""
        found: list[Job] = []
        async for page in self._pages(state, team, at_most):
            found += page
            if at_most is not None and len(found) >= at_most:
                return found[:at_most]
            if len(found) > self._settings.rows_max:
                raise TooLarge(f"over {self._settings.rows_max} jobs; narrow them, or set a limit")
        return found

    async def _pages(
        self, state: JobState | None, team: str | None, at_most: int | None
    ) -> AsyncIterator[tuple[Job, ...]]:
        after: str | None = None
        limit = min(self._settings.page, at_most or self._settings.page)
        while True:
            query = {"state": state, "team": team, "after": after, "limit": limit}
            page = read(JobPage, await self._connection.json("GET", _PATH, query=query), _PATH)
            yield page.jobs
            if page.next is None or not page.jobs or page.next == after:
                return
            after = page.next

    async def get(self, job: str) -> Job:
        return await one(self._connection, Job, "GET", _job(job))

    async def cancel(self, job: str, comment: str) -> Job:
        """A running one writes a checkpoint and ends."""
        return await one(self._connection, Job, "POST", f"{_job(job)}/cancel", {"comment": comment})

    async def prioritise(self, job: str, priority: int) -> Job:
        """0..9; 9 goes first."""
        path = f"{_job(job)}/priority"
        return await one(self._connection, Job, "POST", path, {"priority": priority})

    async def logs(
        self, job: str, after: int = 0, limit: int = 500, wait_s: float = 0.0
    ) -> list[LogLine]:
        """Those after that one, the oldest first; waits up to `wait_s` seconds for the first."""
        query: dict[str, str | int | float | None] = {
            "after": after, "limit": limit, "wait_s": min(wait_s, self._settings.wait_s) or None,
        }  # fmt: skip
        return await many(self._connection, LogLine, "lines", f"{_job(job)}/logs", query)

    async def run(self, job: str) -> Run:
        return await one(self._connection, Run, "GET", f"{_job(job)}/run")

    async def points(self, job: str, metric: str, at_most: int = 10_000) -> list[Point]:
        """Of one metric, by their steps, page by page."""
        path, found = f"{_job(job)}/points", list[Point]()
        while True:
            after = found[-1].step if found else None
            limit = min(self._settings.page, at_most - len(found))
            query = {"metric": metric, "after": after, "limit": limit}
            page = await many(self._connection, Point, "points", path, query)
            if after is not None and page and page[0].step <= after:
                return found  # steps rise: an answer that goes round ends here
            found += page
            if len(page) < limit or len(found) >= at_most:
                return found

    async def fetch(self, job: str, artifact: Artifact, target: Path, moved: Moved) -> int:
        """One file of the run, checked by its hash; its bytes."""
        path = f"{_job(job)}/artifacts/{quoted(artifact.name)}"
        return await fetch(
            self._connection, path, target, moved, sha256=artifact.sha256,
            bytes_max=self._settings.file_bytes_max,
        )  # fmt: skip

    async def workers(self) -> list[WorkerState]:
        return await many(self._connection, WorkerState, "workers", "/v1/workers")

    async def quotas(self) -> list[Quota]:
        return await many(self._connection, Quota, "quotas", "/v1/quotas")

    async def set_quota(self, quota: Quota) -> Quota:
        path = f"/v1/quotas/{quoted(quota.team)}"
        return await one(self._connection, Quota, "PUT", path, quota.model_dump(mode="json"))

    async def delete_quota(self, team: str) -> None:
        """The team is under the default again."""
        await self._connection.json("DELETE", f"/v1/quotas/{quoted(team)}", is_repeatable=False)


def _job(job: str) -> str:
    return f"{_PATH}/{quoted(job)}"
