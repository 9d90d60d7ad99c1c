"""Jobs for tests, and what stands in for models: the seams `Answering` and `Executor`."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from prometheus_client import CollectorRegistry

from cloud.jobs.admission import admit
from cloud.jobs.commits import Commits
from cloud.jobs.counts import JobCounts
from cloud.jobs.database import Change, JobDatabase, T
from cloud.jobs.record import Admitted, Claimed, JobId, NewJob, Result
from cloud.jobs.results import result
from cloud.jobs.settings import JobSettings
from shared.oip.body import Encoded

CALLER = "key-1"
SECRET = "whsec_" + "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo="
RULES = JobSettings()


def rules(**over: Any) -> JobSettings:
    return JobSettings.model_validate(over)


def job(n: int = 1, **over: Any) -> NewJob:
    made: dict[str, Any] = {
        "id": JobId(UUID(int=n)), "caller": CALLER, "model": "tiny", "version": None,
        "body": json.dumps({"n": n}).encode(), "header_length": None,
    }  # fmt: skip
    return NewJob(**(made | over))


def url_in(folder: Path) -> str:
    return f"sqlite:///{folder / 'jobs.db'}"


@contextmanager
def opened(url: str) -> Iterator[JobDatabase]:
    database = JobDatabase(url)
    database.open()
    try:
        yield database
    finally:
        database.close()


def do(database: JobDatabase, change: Change[T]) -> T:
    """One change in a commit of its own; raises what it ended in."""
    (outcome,) = database.write([change])
    if isinstance(outcome, Exception):
        raise outcome
    return outcome  # type: ignore[no-any-return]  # the list holds results of any change


def put(
    database: JobDatabase, new: NewJob, now: float = 0.0, with_: JobSettings = RULES
) -> Admitted:
    return do(database, lambda t: admit(t, new, with_, now))


def look(database: JobDatabase, n: int = 1, caller: str = CALLER) -> Result | None:
    return database.read(lambda c: result(c, caller, JobId(UUID(int=n))))


def seen(database: JobDatabase, n: int = 1) -> Result:
    found = look(database, n)
    assert found is not None
    return found


def counts() -> JobCounts:
    return JobCounts(CollectorRegistry())


def count(counts: JobCounts, name: str, **labels: str) -> float:
    """A counter's value by its attribute's name."""
    counter = getattr(counts, name)
    for label in labels.values():
        counter = counter[label]
    return float(counter._value.get())


class Inline(Executor):
    """Runs at once, on the loop: virtual time has no threads."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001  as executors do
            done.set_exception(error)
        return done


def inline(database: JobDatabase) -> Commits:
    return Commits(database, 1000, writer=Inline(), readers=Inline())


class Echo:
    """Answers with the request's own JSON; `before` may fail, wait, or count."""

    def __init__(self, before: Callable[[Claimed], Awaitable[None]] | None = None) -> None:
        self._before = before
        self.asked: list[Claimed] = []

    async def answer(self, job: Claimed, deadline: float) -> Encoded:
        self.asked.append(job)
        if self._before is not None:
            await self._before(job)
        return answer_to(job.body)


def answer_to(body: bytes) -> Encoded:
    return Encoded(b'{"model_name":"tiny","echo":' + body + b"}", None)


async def until(true: Callable[[], bool], within_s: float = 30.0) -> None:
    """Let the loop run until something holds: each round is one turn of the real loop."""
    async with asyncio.timeout(within_s):
        while not true():  # noqa: ASYNC110  what is waited for is in the database, or on a socket
            await asyncio.sleep(0.001)
