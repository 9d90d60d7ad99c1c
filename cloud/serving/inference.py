"""From rows to an answer, whatever the transport: cache, breaker, batcher, fallback.

`Ask` is a job that knows its model. Both lanes of the HTTP API, the MQTT path and the slower tiers
come through here, so what one of them may rely on, all may.
"""

import asyncio
import logging
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, Protocol

from cloud.serving.breaker import Breaker, State
from cloud.serving.caches.content import Key
from cloud.serving.caches.result_cache import ResultCache
from cloud.serving.failures import failure_of
from cloud.serving.fallback import Fallback
from cloud.serving.fallback_settings import Reliability
from cloud.serving.job import Job, Outputs, Priority, Ran, Rows
from cloud.serving.parts import submit_in_parts
from cloud.serving.refusal import QueueFull
from cloud.serving.reliability_metrics import ReliabilityMetrics
from cloud.serving.served import Served
from shared.errors import DeadlineMissed, Malformed, Unavailable, Unknown

log = logging.getLogger(__name__)

Source = Literal["cloud", "cache", "rule"]

_NONE = Reliability()


class Answer(NamedTuple):
    outputs: Outputs
    source: Source
    queue_s: float
    run_s: float


class Ask(Job):
    """Rows for one model. Whoever asks says in `reply` and `refuse` what becomes of the answer."""

    __slots__ = ("admitted", "guard", "key", "served")

    def __init__(
        self,
        served: Served,
        rows: Rows,
        deadline: float,
        priority: Priority = Priority.INTERACTIVE,
    ) -> None:
        super().__init__(rows, deadline, priority)
        self.served = served

    # set by `Inference.submit`
    guard: "Guard"
    admitted: int  # by the breaker
    key: Key | None  # in the result cache; None: not to be kept

    def reply(self, answer: Answer) -> None:
        """Called once, on the event loop, unless `refuse` is; perhaps before `submit` returns."""
        raise NotImplementedError

    def refuse(self, error: Exception) -> None:
        """Called once, on the event loop, unless `reply` is."""
        raise NotImplementedError

    def answered(self, ran: Ran) -> None:
        self.guard.succeeded(self, ran.outputs)
        self.reply(Answer(ran.outputs, "cloud", ran.queue_s, ran.run_s))

    def failed(self, error: Exception) -> None:
        if (answer := self.guard.failed(self, error)) is not None:
            self.reply(answer)
        else:
            self.refuse(error)


class Queue(Protocol):
    """A batcher, or a cut model's two."""

    def submit(self, job: Job) -> None: ...

    def rows_max(self, priority: Priority) -> int: ...

    def alone_s(self, rows: int, priority: Priority) -> float:
        """Seconds that so many rows take when nobody else is there."""
        ...

    def patience_s(self, priority: Priority) -> float:
        """The longest that a call may take in here, whatever its deadline."""
        ...


class Inference:
    """Belongs to one event loop."""

    def __init__(
        self,
        reliability: Mapping[str, Reliability],
        cache: ResultCache,
        metrics: ReliabilityMetrics,
        queue_of: Callable[[Served], Queue] = lambda served: served.batcher,
    ) -> None:
        """`reliability` by model name; `queue_of` finds what a model's requests go through."""
        self._reliability, self._cache, self._metrics = reliability, cache, metrics
        self._queue_of = queue_of
        self._guards: dict[int, Guard] = {}  # by the `id` of a `Served` that lives

    def submit(self, ask: Ask) -> None:
        """Raises `DeadlineMissed`, `QueueFull`, `Broken`, `Draining` at once, or calls `ask` back."""
        self.guard(ask.served).submit(ask)

    def guard(self, served: Served) -> "Guard":
        """What stands before a loaded model; it does not keep the model in memory.

        Raises `Unknown` for one that only others may ask, `Unavailable` for settings that do not
        fit it.
        """
        return self._guards.get(id(served)) or self._made(served)

    async def answer(
        self,
        served: Served,
        rows: Rows,
        deadline: float,
        priority: Priority = Priority.INTERACTIVE,
    ) -> Answer:
        """By `deadline` (`time.monotonic`). Raises `Unavailable` or `Refused`."""
        ask = _Awaited(served, rows, deadline, priority)
        self.submit(ask)
        return await ask.done

    def _made(self, served: Served) -> "Guard":
        if served.manifest.task == "embed":
            raise Unknown(f"{served.name} is the backbone of other models; ask one of those")
        settings = self._reliability.get(served.name, _NONE)
        guard = Guard(served, settings, self._cache, self._metrics, self._queue_of(served))
        self._guards[id(served)] = guard
        weakref.finalize(served, self._guards.pop, id(served), None)
        return guard


class Guard:
    """What stands before one loaded model: its cache, its breaker, what answers in its place."""

    def __init__(
        self,
        served: Served,
        settings: Reliability,
        cache: ResultCache,
        metrics: ReliabilityMetrics,
        queue: Queue,
    ) -> None:
        self._name, self._version, self._submit = served.name, served.version, queue.submit
        self._queue, self._rows_max = queue, queue.rows_max(Priority.INTERACTIVE)
        self._cache, self._metrics = cache, metrics
        self._caches = cache.is_on
        try:
            self._fallback = Fallback(settings.fallback, served.manifest)
        except Malformed as error:  # nothing that a caller could change
            raise Unavailable(str(error)) from error
        self._breaker = Breaker(settings.breaker, served.name, self._breaker_changed)
        metrics.watch(served.name, self._breaker)
        cache.forget(served.name, served.version)  # a version that was loaded anew may differ

    def submit(self, ask: Ask) -> None:
        ask.guard = self
        now = time.monotonic()
        key = ask.key = (
            self._cache.key(self._name, self._version, ask.rows) if self._caches else None
        )
        if key is not None and (known := self._cache.fresh(key, now)) is not None:
            ask.reply(Answer(known, "cache", 0.0, 0.0))
            return
        ask.admitted = -1
        try:
            ask.admitted = self._breaker.admit(now)
            if ask.priority is Priority.INTERACTIVE:
                rows_max = self._rows_max
            else:
                rows_max = self._queue.rows_max(ask.priority)  # which follows the curve
            if len(ask.rows) <= rows_max:
                self._submit(ask)
            else:
                self._submit_in_parts(ask, rows_max, now)
        except Exception as error:
            answer = self.failed(ask, error)
            if answer is None:
                raise
            ask.reply(answer)

    def _submit_in_parts(self, ask: Ask, rows_max: int, now: float) -> None:
        """Its own first parts must not look like others that are in its way."""
        try:
            submit_in_parts(ask, rows_max, self._submit)
        except QueueFull as error:
            rows, left_s = len(ask.rows), ask.deadline - now
            alone_s = self._queue.alone_s(rows, ask.priority)
            if alone_s > min(left_s, self._queue.patience_s(ask.priority)):
                raise DeadlineMissed(
                    f"{rows} rows take {alone_s * 1e3:.0f} ms by themselves, which is over the time "
                    "that calls have here; send fewer, or a longer timeout and priority 2"
                ) from error
            raise

    def _breaker_changed(self, state: State) -> None:
        log.warning("breaker_changed", extra={"model": self._name, "state": state})

    def succeeded(self, ask: Ask, outputs: Outputs) -> None:
        now = time.monotonic()
        self._breaker.ended(ask.admitted, now, None)
        if ask.key is not None:
            self._cache.keep(ask.key, outputs, now)

    def failed(self, ask: Ask, error: Exception) -> Answer | None:
        """What answers in the model's place; None: the error itself does."""
        now, failure = time.monotonic(), failure_of(error)
        self._breaker.ended(ask.admitted, now, failure)
        fallen = self._fallback.answer(
            failure, len(ask.rows),
            lambda: None if ask.key is None else self._cache.stale(ask.key, now),
        )  # fmt: skip
        if fallen is None:
            return None
        self._metrics.fell(self._name, failure, fallen)
        return Answer(fallen.outputs, fallen.source, 0.0, 0.0)


class _Awaited(Ask):
    __slots__ = ("done",)

    def __init__(self, served: Served, rows: Rows, deadline: float, priority: Priority) -> None:
        super().__init__(served, rows, deadline, priority)
        self.done: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    @property
    def gone(self) -> bool:
        return self.done.done()

    def reply(self, answer: Answer) -> None:
        if not self.done.done():
            self.done.set_result(answer)

    def refuse(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)
