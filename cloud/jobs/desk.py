"""Where callers of this process leave their jobs and ask after them."""

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import Callable
from functools import partial
from typing import Literal

from cloud.jobs import results
from cloud.jobs.admission import admit
from cloud.jobs.commits import Commits
from cloud.jobs.counts import JobCounts
from cloud.jobs.database import Transaction
from cloud.jobs.record import LIVE, Admitted, JobId, JobView, NewJob, Result
from cloud.jobs.settings import JobSettings
from cloud.jobs.waits import Waits
from cloud.jobs.webhooks.guard import WebhookGuard
from shared.errors import HybridgeError, Malformed, Overloaded, Unknown
from shared.new_ids import new_sample_id

log = logging.getLogger(__name__)
PAGE_MAX = 200
_KEY = re.compile(r"[\x21-\x7e]{1,255}")


class JobDesk:
    """Belongs to one event loop."""

    def __init__(
        self,
        commits: Commits,
        waits: Waits,
        guard: WebhookGuard,
        rules: JobSettings,
        counts: JobCounts,
        *,
        on_accepted: Callable[[], None] = lambda: None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._commits, self._waits, self._guard = commits, waits, guard
        self._rules, self._counts, self._on_accepted, self._wall = rules, counts, on_accepted, wall
        self._marks: set[asyncio.Task[None]] = set()

    async def accept(
        self,
        caller: str,
        *,
        model: str,
        version: str | None,
        body: bytes,
        header_length: str | None,
        webhook: str | None = None,
        idempotency_key: str | None = None,
        request_id: str = "",
        traceparent: str = "",
        within_s: float | None = None,
    ) -> Admitted:
        """A job that is on disk when this returns. Let `read_call` check the request first.

        `caller` is the gateway's identity, `body` the request's without compression, `within_s` its
        own deadline. Raises `Refused` (a webhook that may not be, an idempotency key of another
        request), `Overloaded` at a bound, `Unavailable` while the database is away.
        """
        if idempotency_key is not None and not _KEY.fullmatch(idempotency_key):
            raise Malformed("Idempotency-Key: send 1 to 255 visible ASCII characters")
        if webhook is not None:
            await self._guard.check(caller, webhook)
        new = NewJob(
            id=JobId(new_sample_id()), caller=caller, model=model, version=version, body=body,
            header_length=header_length, webhook=webhook, idempotency_key=idempotency_key,
            request_id=request_id[:128], traceparent=traceparent, within_s=within_s,
        )  # fmt: skip

        def change(transaction: Transaction) -> Admitted:
            return admit(transaction, new, self._rules, self._wall())

        try:
            admitted = await self._commits.change(change)
        except Overloaded:
            self._counts.over_bounds.inc()
            raise
        if admitted.fresh:
            self._counts.accepted.inc()
            self._on_accepted()
        else:
            self._counts.repeated.inc()
        return admitted

    async def result(self, caller: str, id_: JobId, wait_s: float = 0.0) -> Result:
        """How the job stands, after at most `wait_s` if it has not ended. Raises `Unknown`."""
        if wait_s <= 0:
            return await self._look(caller, id_)
        with self._waits.place(id_) as told:
            found = await self._look(caller, id_)
            if told is None or found.view.state not in LIVE:
                return found
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(wait_s, self._rules.wait_ms_max / 1e3)):
                    await told.wait()
        return await self._look(caller, id_)

    def fetched(self, id_: JobId) -> None:
        """Note that its caller is being given the result; nobody waits for the note."""
        change = partial(results.fetched, id_=id_, rules=self._rules, now=self._wall())
        mark = asyncio.get_running_loop().create_task(self._mark(change))
        self._marks.add(mark)
        mark.add_done_callback(self._marks.discard)

    async def page(self, caller: str, count: int, before: JobId | None = None) -> list[JobView]:
        """The caller's jobs, the newest first, at most `PAGE_MAX`."""
        count = min(count, PAGE_MAX)
        return await self._commits.read(lambda c: results.page(c, caller, count, before))

    async def remove(self, caller: str, id_: JobId) -> Literal["cancelled", "deleted"]:
        """Cancel a job, or delete one that has ended. Raises `Unknown`."""

        def change(transaction: Transaction) -> Literal["cancelled", "deleted"] | None:
            return results.remove(transaction, caller, id_, self._rules, self._wall())

        done = await self._commits.change(change)
        if done is None:
            raise _unknown(id_)
        if done == "cancelled":
            self._counts.cancelled.inc()
            self._waits.tell([id_])
        return done

    async def finish(self) -> None:
        """Wait for what nobody waits for."""
        await asyncio.gather(*self._marks)

    async def _look(self, caller: str, id_: JobId) -> Result:
        found = await self._commits.read(lambda c: results.result(c, caller, id_))
        if found is None:
            raise _unknown(id_)
        return found

    async def _mark(self, change: Callable[[Transaction], None]) -> None:
        try:
            await self._commits.change(change)
        except HybridgeError as error:  # it is kept for longer, then; that is all
            log.warning("fetch_not_noted", extra={"why": str(error)[:300]})


def _unknown(id_: JobId) -> Unknown:
    return Unknown(f"results: there is no {id_}; it was never yours, or it was kept for its time")
