"""The trial: the candidate runs behind the active model on live samples, within a share of a core.

It has a thread of its own, never the event loop and never the thread that answers. All counting is
on the event loop. A thread cannot be stopped: one that hangs in the candidate is left behind.
"""

import asyncio
import math
import queue
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from edge.answers import Answer
from edge.updates.trial import CpuBudget, Tally, Terms, Verdict, judge

_WAITING_MAX = 32  # samples; more are skipped: a trial is no backlog
_HUNG_S = 30.0
HURRY_S = 2.0

Image = NDArray[np.uint8]
_Job = tuple[Image, int]


class Candidate(Protocol):
    """What is tried: `edge.inference.slot.Slot`."""

    def logits(self, tensor: NDArray[np.generic]) -> list[float]: ...


class Trial:
    def __init__(
        self, candidate: Candidate, terms: Terms, cpu_share: float, hung_s: float = _HUNG_S
    ) -> None:
        """Call it on the event loop."""
        self._candidate, self._terms, self._hung_s = candidate, terms, hung_s
        self._budget = CpuBudget(cpu_share)
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._ended = False
        self._waiting = 0
        self._last_sign = 0.0  # when the thread was idle last, or ended a sample
        self._changed, self._gone = asyncio.Event(), asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.tally = Tally()
        self._thread = threading.Thread(target=self._work, name="trial", daemon=True)

    def show(self, tensor: Image, answer: Answer) -> None:
        """One live sample and what the edge answered to it; returns at once."""
        now = self._loop.time()
        if self._waiting >= _WAITING_MAX or not self._budget.allows(now):
            self.tally.skipped += 1
            return
        if self._waiting == 0:
            self._last_sign = now
        self._waiting += 1
        self._jobs.put((tensor, answer.edge_label))

    async def run(self) -> Verdict:
        """Until there is a verdict; `show` is called meanwhile. Then `leave`."""
        began = self._loop.time()
        deadline = began + self._terms.s_max
        self._thread.start()
        while (verdict := self._judged(began)) is None:
            self._changed.clear()
            async with _until(min(deadline, self._loop.time() + self._hung_s)):
                await self._changed.wait()
        return verdict

    async def leave(self, *, hurry: bool = False) -> bool:
        """End the thread, so that another may use the candidate; False when it hangs in there.

        `hurry`: somebody waits for it, and it is not to be used any more.
        """
        self._ended = True
        self._jobs.put(None)
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
        return judge(self._terms, self.tally, now - began)

    # In the thread

    def _work(self) -> None:
        try:
            self._run_jobs()
        finally:
            with suppress(RuntimeError):  # the agent ended meanwhile
                self._loop.call_soon_threadsafe(self._gone.set)

    def _run_jobs(self) -> None:
        while (job := self._jobs.get()) is not None and not self._ended:
            tensor, label = job
            start = time.perf_counter()
            logits: list[float] | None
            try:
                logits = self._candidate.logits(tensor)
            except Exception:  # noqa: BLE001  whatever it raises, it is the candidate's fault
                logits = None
            took_s = time.perf_counter() - start
            with suppress(RuntimeError):  # the agent ended meanwhile
                self._loop.call_soon_threadsafe(self._ran, logits, label, took_s)

    # On the event loop again

    def _ran(self, logits: list[float] | None, label: int, took_s: float) -> None:
        """Time in a run counts as computing: an engine's own threads do not show in this one's."""
        self._budget.spend(took_s)
        self._last_sign = self._loop.time()
        self._waiting -= 1
        if logits is None:
            self.tally.failed += 1
        else:
            finite = all(map(math.isfinite, logits))
            agrees = finite and logits.index(max(logits)) == label
            self.tally.add(agrees=agrees, finite=finite, latency_ms=took_s * 1e3)
        self._changed.set()


@asynccontextmanager
async def _until(when: float) -> AsyncIterator[None]:
    """Give up at `when` on the loop's clock, quietly."""
    with suppress(TimeoutError):
        async with asyncio.timeout_at(when):
            yield
