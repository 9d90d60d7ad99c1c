"""One process's work at the jobs: answer each, store what came of it, try again later where asked.

A job is run at least once and has one result: whoever comes after the lease finds it taken.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Protocol

from cloud.jobs import claims
from cloud.jobs.commits import Commits
from cloud.jobs.counts import JobCounts
from cloud.jobs.database import Transaction
from cloud.jobs.pull import Pull
from cloud.jobs.record import Claimed, Failure, JobId, Reason
from cloud.jobs.settings import JobSettings
from cloud.jobs.sweep import Swept, sweep
from shared.backoff import pause_s
from shared.errors import DeadlineMissed, HybridgeError, Unavailable
from shared.logs import OncePer
from shared.oip.body import Encoded

log = logging.getLogger(__name__)
_DETAIL_CHARACTERS_MAX = 1_000
_LOG_PERIOD_S = 60.0


class Answering(Protocol):
    """What answers a stored request; `answering.OipAnswering` reads it and asks the models."""

    async def answer(self, job: Claimed, deadline: float) -> Encoded:
        """`deadline` of `time.monotonic`. Raises `Refused` and `Unavailable`."""


class JobRunner:
    """Belongs to one event loop."""

    def __init__(
        self,
        commits: Commits,
        answering: Answering,
        rules: JobSettings,
        counts: JobCounts,
        *,
        on_ended: Callable[[Sequence[JobId]], None] = lambda _ids: None,
        wall: Callable[[], float] = time.time,
        now: Callable[[], float] = time.monotonic,
        rng: Random | None = None,
    ) -> None:
        """`on_ended` hears of every job that this process ended. `wall`: Unix seconds."""
        self._commits, self._answering, self._rules = commits, answering, rules
        self._counts, self._on_ended = counts, on_ended
        self._wall, self._now = wall, now
        self._rng = rng or Random()  # noqa: S311  for jitter
        self._pull = Pull(
            "jobs", self._claim, self._run_one,
            in_hand_max=rules.in_hand_max, look_s=rules.look_s,
        )  # fmt: skip
        self._draining, self._bytes_in_hand = asyncio.Event(), 0
        self._once = OncePer(_LOG_PERIOD_S)

    @property
    def in_hand(self) -> int:
        return self._pull.in_hand

    def wake(self) -> None:
        """Say that a job was accepted here."""
        self._pull.wake()

    def drain(self) -> None:
        """Take nothing more; `run` returns when what is in hand has ended, within `attempt_s`."""
        self._draining.set()
        self._pull.drain()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as parts:
            parts.create_task(self._pull.run())
            parts.create_task(self._sweep_again_and_again())

    async def _claim(self, count_max: int) -> list[Claimed]:
        held = self._bytes_in_hand
        room_bytes = self._rules.in_hand_bytes_max - held if held else None

        def change(transaction: Transaction) -> tuple[list[Claimed], int]:
            return claims.claim(transaction, count_max, self._rules, self._wall(), room_bytes)

        claimed, reclaimed = await self._commits.change(change)
        self._bytes_in_hand += sum(job.row_bytes for job in claimed)
        self._counts.reclaimed.inc(reclaimed)
        return claimed

    async def _run_one(self, job: Claimed) -> None:
        self._counts.in_hand.inc()
        try:
            outcome = await self._attempt(job)
            if isinstance(outcome, float):
                await self._give_back(job, outcome)
            else:
                await self._store(job, outcome)
        finally:
            self._counts.in_hand.dec()
            self._bytes_in_hand -= job.row_bytes

    async def _attempt(self, job: Claimed) -> Encoded | Failure | float:
        """An end, or the seconds until the next attempt."""
        rules = self._rules
        within_s = min(rules.attempt_s, max(job.expires_at - self._wall(), 0.0))
        try:
            async with asyncio.timeout(within_s):
                return await self._answering.answer(job, self._now() + within_s)
        except TimeoutError:
            return self._later(job, DeadlineMissed(f"no answer within {within_s:.1f} s"))
        except Unavailable as error:
            return self._later(job, error)
        except HybridgeError as error:
            return _failure("refused", error)
        except Exception:
            log.exception("job_failed", extra={"job": str(job.id), "model": job.model})
            return Failure("fault", "HybridgeError", "a fault of this server; see its log")

    def _later(self, job: Claimed, error: Unavailable) -> Failure | float:
        rules = self._rules
        attempt = job.attempts + 1
        if attempt >= rules.attempts_max:
            return _failure("unavailable", error)
        return pause_s(
            attempt, rules.backoff_s_min, rules.backoff_s_max, self._rng,
            error.retry_after_s or 0.0,
        )  # fmt: skip

    async def _give_back(self, job: Claimed, pause: float) -> None:
        due_at = min(self._wall() + pause, job.expires_at)
        if await self._until_lease(job, partial(claims.give_back, job=job, due_at=due_at)):
            self._counts.retried["unavailable"].inc()

    async def _store(self, job: Claimed, outcome: Encoded | Failure) -> None:
        def change(transaction: Transaction) -> Encoded | Failure | None:
            return claims.finish(transaction, job, outcome, self._rules, self._wall())

        match await self._until_lease(job, change):
            case Encoded():
                self._counts.done.inc()
            case Failure() as failure:
                self._counts.given_up[failure.reason].inc()
                held_back = self._once.admits(failure.reason, self._now())
                if held_back is not None:
                    log.warning(
                        "job_given_up",
                        extra={
                            "job": str(job.id), "reason": failure.reason, "model": job.model,
                            "why": failure.detail[:300], "more_since_last": held_back,
                        },
                    )  # fmt: skip
            case _:
                return
        self._on_ended([job.id])

    async def _until_lease(self, job: Claimed, change: Callable[[Transaction], object]) -> object:
        """Commit what is known of a job, as often as the database is away; None, False: too late."""
        failures = 0
        while self._wall() < job.lease_until:
            try:
                made = await self._commits.change(change)
            except Unavailable:
                failures += 1
                self._counts.retried["store"].inc()
                if self._draining.is_set():  # it is run again after the lease, then
                    return None
                await asyncio.sleep(pause_s(failures, 0.1, 5.0, self._rng))
            else:
                if not made:
                    self._counts.retried["late"].inc()  # cancelled, or another's by now
                return made
        self._counts.retried["late"].inc()
        return None

    async def _sweep_again_and_again(self) -> None:
        while not self._draining.is_set():
            more = False
            try:
                more = self._count(
                    await self._commits.change(lambda t: sweep(t, self._rules, self._wall()))
                )
            except Unavailable:
                log.debug("sweep_put_off")  # `Pull` says that the database is away
            if more:
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._rules.sweep_s):
                    await self._draining.wait()

    def _count(self, swept: Swept) -> bool:
        for reason, count in swept.given_up.items():
            self._counts.given_up[reason].inc(count)
            log.warning("jobs_given_up", extra={"reason": reason, "count": count})
        self._counts.deleted.inc(swept.deleted)
        self._counts.deliveries["given_up"].inc(swept.undelivered)
        if swept.ended:
            self._on_ended(swept.ended)
        return swept.more


def _failure(reason: Reason, error: HybridgeError) -> Failure:
    return Failure(reason, type(error).__name__, str(error)[:_DETAIL_CHARACTERS_MAX])
