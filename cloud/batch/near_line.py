"""The near-line shape: every few minutes a window, through the model that serves online as well.

A window ends on time, whatever is left. What is left goes first in the next one, is counted and
logged, and after several such windows in a row the status raises an alert.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from math import prod
from typing import Literal

from cloud.batch.answer_folder import AnswerFolder
from cloud.batch.counts import NearLineCounts
from cloud.batch.job import Job
from cloud.batch.journal import Entry, Journal, remaining
from cloud.batch.online_model import Ask, Find, OnlineModel
from cloud.batch.planner import Pending, plan, reached, rows_per_s, window_after
from cloud.batch.progress import Tally
from cloud.batch.read_ahead import read_ahead
from cloud.batch.reading import rows_expected
from cloud.batch.settings import NearLineJob
from cloud.batch.source import Found, Source
from cloud.batch.work import Work
from shared.errors import HybridgeError, InUse

log = logging.getLogger(__name__)

State = Literal["waits", "works", "elsewhere", "failed"]
Ended = Literal["complete", "late", "empty", "failed", "elsewhere"]

_WAIT_S = (0.001, 30.0)  # one wait for a window: at least, at most


@dataclass(frozen=True, slots=True)
class NearLineStatus:
    """`late` inputs were left by the last window, `behind` windows in a row left some."""

    job: str
    state: State
    next_window: str  # ISO 8601, UTC
    rows: int  # since this worker began
    late: int
    behind: int
    alert: str | None


class NearLine:
    """One job. `run` until `drain`; the window under way is then cut short, its answers kept."""

    def __init__(
        self,
        settings: NearLineJob,
        source: Callable[[], Source],
        find: Find,
        ask: Ask,
        counts: NearLineCounts,
        *,
        finished: Callable[[list[str]], None] = lambda _names: None,
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`source` may raise; it is asked once a window, in a thread. `finished` hears, in a
        thread, which inputs are done or failed. `now` is the batchers' clock, `wall` gives Unix
        seconds.
        """
        self._settings, self._source, self._counts = settings, source, counts
        self._finished, self._now, self._wall = finished, now, wall
        self._stop = asyncio.Event()
        self._model = OnlineModel(
            find, ask, settings.model, settings.version, stop=self._stop, now=now,
            on_wait=counts.waits.labels(settings.name).inc,
        )  # fmt: skip
        self._state: State = "waits"
        self._ratio = 1.0
        self._rows = self._late = self._behind = 0
        self._next = window_after(wall(), settings.every_s)

    @property
    def status(self) -> NearLineStatus:
        alert = None
        if self._behind >= self._settings.behind_max:
            alert = (
                f"{self._behind} windows in a row left work undone, the last one {self._late} "
                "inputs; make windows longer, or add a worker"
            )
        return NearLineStatus(
            self._settings.name, self._state, datetime.fromtimestamp(self._next, UTC).isoformat(),
            self._rows, self._late, self._behind, alert,
        )  # fmt: skip

    def drain(self) -> None:
        self._stop.set()

    async def run(self) -> None:
        """A window that fails is logged and counted; the next one tries again."""
        name, every_s = self._settings.name, self._settings.every_s
        while not self._stop.is_set():
            begins = self._next = window_after(self._wall(), every_s)
            await self._until(begins)
            if self._stop.is_set():
                return
            self._state, self._next = "works", begins + every_s
            try:
                ended: Ended = await self._window(begins)
                self._state = "waits"
            except InUse:
                ended, self._state = "elsewhere", "elsewhere"
            except HybridgeError as error:
                ended, self._state = "failed", "failed"
                log.warning("nearline_failed", extra={"job": name, "why": str(error)})
            self._counts.windows.labels(name, ended).inc()

    async def _window(self, begins: float) -> Ended:
        """Raises `InUse` while another worker of this machine has the job."""
        settings = self._settings
        until = self._now() + settings.window_s
        source = await asyncio.to_thread(self._source)
        with await asyncio.to_thread(Journal, settings.out) as journal:
            job = _job(settings, source)
            journal.begin(job)
            found = await asyncio.to_thread(source.find)
            before = await asyncio.to_thread(journal.entries)
            folder = AnswerFolder(settings.out, journal, job)
            await asyncio.to_thread(folder.tidy)
            first_part = folder.next_part
            await asyncio.to_thread(journal.forget, _gone(found, before), first_part)
            pending = remaining(found, before, changed_again=True)
            tally = await self._work(job, folder, source, pending, until)
            late = len(pending) - tally.inputs
            after = await asyncio.to_thread(journal.entries)
            if tally.inputs or tally.rows:
                stamp = f"window-{_stamp(begins)}"
                failed = [e for e in _failed(after) if before.get(e.name) != e]
                await asyncio.to_thread(folder.write_errors, failed, f"{stamp}.errors.jsonl")
                await asyncio.to_thread(
                    lambda: folder.write_summary(
                        tally.inputs, tally.failed, f"{stamp}.json", first_part, late=late
                    )
                )
            over = [one.name for one in found if _is_over(one, after)]
            await asyncio.to_thread(self._finished, over)
        return self._note(tally, late, bool(pending))

    async def _work(
        self,
        job: Job,
        folder: AnswerFolder,
        source: Source,
        pending: Sequence[Pending],
        until: float,
    ) -> Tally:
        """Whatever fits before `until`, by this job's clock, oldest first."""
        face = await self._model.begin(until) if pending else None
        if face is None:
            return Tally()
        row_bytes = prod(face.shape)

        def rows_of(one: Found) -> int:
            return rows_expected(one.name, one.size_bytes, row_bytes)

        work = Work(job, face.labels, folder, answer=self._model.answer)
        left = pending
        try:
            while left and self._model.has_time(
                job.batch_rows
            ):  # a plan that was too modest is followed by another
                began, before = self._now(), work.tally.rows
                rate = rows_per_s(face.cost_s, job.batch_rows, face.idle_share, self._ratio)
                planned = plan(left, rows_of, rate, until - began)
                reads = read_ahead(source, (one for one, _ in planned.take), face.shape)
                async with aclosing(reads):
                    at_end = await work.run(reads, {one.name: rows for one, rows in planned.take})
                done = work.tally.rows - before
                self._ratio = reached(self._ratio, rate, done, self._now() - began)
                left = planned.left if at_end else ()
        finally:
            self._rows += work.tally.rows
            self._model.end()
        return work.tally

    def _note(self, tally: Tally, late: int, had_work: bool) -> Ended:
        counts, name = self._counts, self._settings.name
        counts.rows.labels(name).inc(tally.rows)
        counts.inputs.labels(name, "done").inc(tally.inputs - tally.failed)
        counts.inputs.labels(name, "failed").inc(tally.failed)
        counts.late.labels(name).inc(late)
        self._late = late
        self._behind = self._behind + 1 if late else 0
        counts.behind.labels(name).set(self._behind)
        if late:
            log.warning(
                "nearline_late",
                extra={"job": name, "late": late, "done": tally.inputs, "behind": self._behind},
            )
            return "late"
        return "complete" if had_work else "empty"

    async def _until(self, wall: float) -> None:
        """Looks at the wall clock again now and then: it may be set."""
        while not self._stop.is_set() and (left_s := wall - self._wall()) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(min(max(left_s, _WAIT_S[0]), _WAIT_S[1])):
                    await self._stop.wait()


def _job(settings: NearLineJob, source: Source) -> Job:
    return Job(
        source=source.where, model=settings.model, version=settings.version, bundle_sha256=None,
        variant=None, batch_rows=settings.batch_rows, part_rows=settings.part_rows,
        layout=settings.layout, probabilities=settings.probabilities,
    )  # fmt: skip


def _stamp(begins: float) -> str:
    """As ISO 8601 without separators; windows of a fraction of a second differ, too."""
    at = datetime.fromtimestamp(begins, UTC)
    fraction = f".{at.microsecond // 1000:03}" if at.microsecond else ""
    return f"{at:%Y%m%dT%H%M%S}{fraction}Z"


def _gone(found: Sequence[Found], entries: Mapping[str, Entry]) -> set[str]:
    """What is done and not there any more need not be remembered."""
    return entries.keys() - {one.name for one in found}


def _failed(entries: Mapping[str, Entry]) -> list[Entry]:
    return [entries[name] for name in sorted(entries) if entries[name].state == "failed"]


def _is_over(one: Found, entries: Mapping[str, Entry]) -> bool:
    entry = entries.get(one.name)
    return entry is not None and entry.state != "partial" and entry.is_of(one)
