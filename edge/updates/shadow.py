"""The candidate runs behind the active model on live samples, within a share of a core.

Staged, until the fleet says live; on trial, by its terms. One run can go from one to the other, and
what it has shown counts on.

It has a thread of its own, never the event loop and never the thread that answers. All counting is
on the event loop. A thread cannot be stopped: one that hangs in the candidate is left behind.
"""

import asyncio
import math
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from edge.answers import Answer
from edge.updates.shadow_tally import ShadowTally
from edge.updates.trial import CpuBudget, Tally, Terms, Verdict, judge, judge_staged
from edge.updates.waiting import Waiting
from shared.ids import SampleId

_WAITING_MAX = 32  # samples; more are skipped: a trial is no backlog
_HUNG_S = 30.0
HURRY_S = 2.0

Image = NDArray[np.uint8]
_SURE: Final = frozenset({"accepted", "audit"})


@dataclass(frozen=True, slots=True)
class _Job:
    tensor: Image
    label: int
    """The active model's."""
    sure: bool
    """It was."""
    sample: SampleId


class Candidate(Protocol):
    """What is tried: `edge.inference.slot.Slot`."""

    def logits(self, tensor: NDArray[np.generic]) -> list[float]: ...


class Trial:
    def __init__(
        self,
        candidate: Candidate,
        terms: Terms,
        cpu_share: float,
        hung_s: float = _HUNG_S,
        *,
        evidence: ShadowTally | None = None,
        live: bool = True,
    ) -> None:
        """Call it on the event loop. `live`: on trial, and not staged."""
        self._candidate, self._terms, self._hung_s = candidate, terms, hung_s
        self._budget = CpuBudget(cpu_share)
        self._evidence, self._live = evidence, live
        self._jobs: Waiting[_Job] = Waiting(_WAITING_MAX)
        self._waiting = 0
        self._last_sign = 0.0  # when the thread was idle last, or ended a sample
        self._changed, self._gone = asyncio.Event(), asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.tally = Tally()
        self._thread = threading.Thread(target=self._work, name="trial", daemon=True)

    def show(self, tensor: Image, answer: Answer) -> None:
        """One live sample and what the edge answered to it; returns at once.

        Those that the cloud will answer go first: they tell which of the two is right.
        """
        now = self._loop.time()
        first = answer.route != "accepted"
        room = first or self._waiting < _WAITING_MAX  # one of them is in the thread
        if not (room and self._budget.allows(now, first=first)):
            self.tally.skipped += 1
        elif self._jobs.put(
            _Job(tensor, answer.edge_label, answer.route in _SURE, answer.id), first=first
        ):
            if self._waiting == 0:
                self._last_sign = now
            self._waiting += 1
        else:
            self.tally.skipped += 1

    def turn(self, *, live: bool) -> None:
        """From staged to trial, or back."""
        self._live = live
        self._changed.set()

    async def run(self) -> Verdict:
        """Until there is a verdict; `show` is called meanwhile. Then `leave`."""
        began = self._loop.time()
        deadline = began + self._terms.s_max
        self._thread.start()
        while (verdict := self._judged(began)) is None:
            self._changed.clear()
            looks_at = self._loop.time() + self._hung_s
            async with _until(min(deadline, looks_at) if self._live else looks_at):
                await self._changed.wait()
        return verdict

    async def leave(self, *, hurry: bool = False) -> bool:
        """End the thread, so that another may use the candidate; False when it hangs in there.

        `hurry`: somebody waits for it, and it is not to be used any more.
        """
        self._jobs.close()
        if self._thread.ident is None:
            return True
        with suppress(TimeoutError):  # nobody joins it: who waits for a thread cannot be ended
            async with asyncio.timeout(min(HURRY_S, self._hung_s) if hurry else self._hung_s):
                await self._gone.wait()
        return self._gone.is_set()

    def _judged(self, began: float) -> Verdict | None:
        now = self._loop.time()
        if self._waiting > 0 and now - self._last_sign >= self._hung_s:
            return Verdict(accepted=False, why=f"hangs over a live sample for {self._hung_s:g} s")
        if not self._live:
            return judge_staged(self._terms, self.tally)
        return judge(self._terms, self.tally, now - began)

    # In the thread

    def _work(self) -> None:
        try:
            self._run_jobs()
        finally:
            with suppress(RuntimeError):  # the agent ended meanwhile
                self._loop.call_soon_threadsafe(self._gone.set)

    def _run_jobs(self) -> None:
        while (job := self._jobs.get()) is not None:
            start = time.perf_counter()
            logits: list[float] | None
            try:
                logits = self._candidate.logits(job.tensor)
            except Exception:  # noqa: BLE001  whatever it raises, it is the candidate's fault
                logits = None
            took_s = time.perf_counter() - start
            with suppress(RuntimeError):  # the agent ended meanwhile
                self._loop.call_soon_threadsafe(self._ran, logits, job, took_s)

    # On the event loop again

    def _ran(self, logits: list[float] | None, job: _Job, took_s: float) -> None:
        """Time in a run counts as computing: an engine's own threads do not show in this one's."""
        self._budget.spend(took_s)
        self._last_sign = self._loop.time()
        self._waiting -= 1
        latency_ms, own = took_s * 1e3, None
        if logits is None:
            self.tally.failed += 1
        else:
            finite = all(map(math.isfinite, logits))
            own = logits.index(max(logits)) if finite else None
            self.tally.add(
                agrees=own == job.label, finite=finite, latency_ms=latency_ms,
                slow=latency_ms > self._terms.p95_ms_max, sure=job.sure,
            )  # fmt: skip
        if self._evidence is not None:
            self._evidence.ran(job.sample, own, job.label, latency_ms)
        self._changed.set()


@asynccontextmanager
async def _until(when: float) -> AsyncIterator[None]:
    """Give up at `when` on the loop's clock, quietly."""
    with suppress(TimeoutError):
        async with asyncio.timeout_at(when):
            yield
