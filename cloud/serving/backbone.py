"""A backbone whose features several heads take, and who waits for them.

Requests that ask for the same rows at the same time, of whichever heads, share one run.
"""

import time
from collections.abc import Callable
from typing import Protocol

from cloud.serving.caches.content import Key
from cloud.serving.caches.feature_cache import FeatureCache, Owner
from cloud.serving.job import Floats, Job, Ran, Rows
from cloud.serving.refusal import QueueFull
from shared.errors import DeadlineMissed

_SWEPT_AT_LEAST = 64


class Queue(Protocol):
    """What takes jobs: a model's batcher."""

    def submit(self, job: Job) -> None: ...


class Wish:
    """A request that waits for features, which it needs by `needed_by`."""

    __slots__ = ("asked_at", "job", "needed_by")

    def __init__(self, job: Job, needed_by: float) -> None:
        self.job, self.needed_by = job, needed_by
        self.asked_at = 0.0  # set by the backbone

    def featured(self, features: Floats, queue_s: float, run_s: float) -> None:
        """Called once, on the event loop, unless the job's `failed` is.

        `features` [n, features] are for reading only. The times are this request's own, which may
        have come when the run was under way.
        """
        raise NotImplementedError


class Backbone:
    """Belongs to one event loop. Heads share it; drain them after it."""

    def __init__(
        self,
        owner: Owner,
        queue: Queue,
        cache: FeatureCache,
        *,
        waiting_max: int = 1024,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`waiting_max`: requests that may wait for runs which others began. `now`: the queue's
        clock.
        """
        self._owner, self._queue, self._cache = owner, queue, cache
        self._waiting_max, self._now = waiting_max, now
        self._latest: dict[Key, _Run] = {}  # what a request may join
        self._open: set[_Run] = set()
        self._sweep_above = _SWEPT_AT_LEAST
        self._joined = 0

    @property
    def joined(self) -> int:
        """Requests that wait for a run which another one began."""
        return self._joined

    def known(self, rows: Rows) -> tuple[Key | None, Floats | None]:
        """What `rows` are known by, and their features, if they are at hand."""
        key = self._cache.key(self._owner, rows)
        return key, None if key is None else self._cache.find(key)

    def ask(self, wish: Wish, key: Key | None) -> None:
        """Call `wish.featured` or its job's `failed` later, once. Raises what the queue raises."""
        wish.asked_at = self._now()
        under_way = None if key is None else self._latest.get(key)
        if under_way is not None and under_way.suits(wish):
            self._join(under_way, wish)
            return
        run = _Run(self, key, wish)
        self._queue.submit(run)
        self._cache.look_ups.missed += 1
        if key is not None:
            if len(self._open) >= self._sweep_above:
                self._sweep()
            self._open.add(run)
            self._latest[key] = run

    def done(self, run: "_Run", features: Floats | None) -> None:
        """A run has ended, with features or without."""
        self._close(run)
        if features is not None and run.key is not None:
            self._cache.keep(run.key, features)

    def _join(self, run: "_Run", wish: Wish) -> None:
        if self._joined >= self._waiting_max:
            self._sweep()
        if self._joined >= self._waiting_max:
            left_s = max(0.0, run.deadline - wish.asked_at)
            raise QueueFull(f"{self._joined} requests wait for features under way", left_s)
        self._joined += 1
        self._cache.look_ups.shared += 1
        run.wishes.append(wish)

    def _sweep(self) -> None:
        """A batcher says nothing of a run that everybody left before it began."""
        for run in [run for run in self._open if run.gone]:
            self._close(run)
        self._sweep_above = max(_SWEPT_AT_LEAST, 2 * len(self._open))

    def _close(self, run: "_Run") -> None:
        if run not in self._open:
            return
        self._open.remove(run)
        self._joined -= len(run.wishes) - 1
        if run.key is not None and self._latest.get(run.key) is run:
            del self._latest[run.key]


class _Run(Job):
    """One run of the backbone, for the wish that began it and those that joined."""

    __slots__ = ("backbone", "key", "wishes")

    def __init__(self, backbone: Backbone, key: Key | None, first: Wish) -> None:
        super().__init__(first.job.rows, first.needed_by, first.job.priority)
        self.backbone, self.key, self.wishes = backbone, key, [first]

    @property
    def gone(self) -> bool:
        return all(wish.job.gone for wish in self.wishes)

    def suits(self, wish: Wish) -> bool:
        """Whoever is in more of a hurry than the one who began would be promised too much."""
        return (
            wish.needed_by >= self.deadline
            and wish.job.priority >= self.priority
            and not self.gone  # the batcher may have dropped it
        )

    def answered(self, ran: Ran) -> None:
        features = ran.outputs.logits
        self.backbone.done(self, features)
        started = self.added + ran.queue_s
        ended = started + ran.run_s

        def tell(wish: Wish) -> None:
            began = max(started, wish.asked_at)
            wish.featured(features, began - wish.asked_at, ended - began)

        self._each(tell)

    def failed(self, error: Exception) -> None:
        self.backbone.done(self, None)
        self._each(lambda wish: self._fail(wish, error))

    def _fail(self, wish: Wish, error: Exception) -> None:
        if isinstance(error, DeadlineMissed) and wish.needed_by > self.deadline:
            try:
                self.backbone.ask(wish, self.key)  # it has time left, which the first had not
                return
            except Exception as refusal:  # noqa: BLE001  it was accepted, so it is told
                error = refusal
        wish.job.failed(error)

    def _each(self, tell: Callable[[Wish], None]) -> None:
        """Whatever another one raises; the batcher logs what comes out of here."""
        raised: Exception | None = None
        for wish in self.wishes:
            if wish.job.gone:
                continue
            try:
                tell(wish)
            except Exception as error:  # noqa: BLE001
                raised = error
        if raised is not None:
            raise raised
