"""Leave a model alone that keeps failing, and try again with a few. Pure: `now` is given.

A circuit breaker (Nygard, Release It!, 2007). What counts is a fault of the model or its engine: a
caller's mistake, an overload or a missed deadline is neither for nor against it.
"""

from collections.abc import Callable
from typing import Literal

from cloud.serving.failures import Broken, Failure
from cloud.serving.fallback_settings import BreakerSettings

State = Literal["closed", "open", "half-open"]


def _silent(_state: State) -> None:
    return


class Breaker:
    """Of one loaded model. Times are seconds of one monotonic clock.

    `ended` belongs to every `admit`, with the number that it gave: what was admitted in an earlier
    state says nothing about this one.
    """

    def __init__(
        self,
        settings: BreakerSettings,
        model: str,
        on_change: Callable[[State], None] = _silent,
    ) -> None:
        self._settings, self._model, self._on_change = settings, model, on_change
        self.state: State = "closed"
        self.opened = 0
        """How often, since it was made."""
        self.held_back = 0
        """Requests that the model was spared."""
        self._period = 0  # one more with each change of state
        self._half_ends = 0.0
        self._good = self._bad = self._good_before = self._bad_before = 0
        self._pause_s = settings.pause_s
        self._retry_at = 0.0
        self._probing = self._passed = 0
        self._probed_at = 0.0

    def admit(self, now: float) -> int:
        """Raises `Broken` while the model is left alone."""
        if self.state == "closed":
            return self._period
        if self.state == "open":
            if now < self._retry_at:
                raise self._broken(self._retry_at - now)
            self._change("half-open")
            self._probing = self._passed = 0
        lost_at = self._probed_at + self._settings.pause_s
        if now >= lost_at:
            self._probing = 0  # those who asked have left, and nobody will say how it went
        if self._probing + self._passed >= self._settings.probes:
            raise self._broken(lost_at - now)
        self._probing += 1
        self._probed_at = now
        return self._period

    def ended(self, admitted: int, now: float, failure: Failure | None) -> None:
        """What came of a request; None: an answer."""
        if admitted != self._period:
            return
        if self.state == "closed":
            if failure is None:
                if now >= self._half_ends:
                    self._turn(now)
                self._good += 1
            elif failure == "fault":
                self._count_fault(now)
        elif self.state == "half-open":
            self._probed(now, failure)

    def _count_fault(self, now: float) -> None:
        if now >= self._half_ends:
            self._turn(now)
        self._bad += 1
        bad = self._bad + self._bad_before
        calls = bad + self._good + self._good_before
        if calls >= self._settings.calls_min and bad >= self._settings.failed_share * calls:
            self._open(now)

    def _turn(self, now: float) -> None:
        half_s = self._settings.window_s / 2
        lately = now < self._half_ends + half_s
        self._good_before, self._bad_before = (self._good, self._bad) if lately else (0, 0)
        self._good = self._bad = 0
        self._half_ends = now + half_s

    def _probed(self, now: float, failure: Failure | None) -> None:
        self._probing = max(0, self._probing - 1)
        if failure == "fault":
            self._pause_s = min(2 * self._pause_s, self._settings.pause_s_max)
            self._open(now)
        elif failure is None:
            self._passed += 1
            if self._passed >= self._settings.probes:
                self._change("closed")
                self._pause_s = self._settings.pause_s
                self._good = self._bad = self._good_before = self._bad_before = 0

    def _open(self, now: float) -> None:
        self.opened += 1
        self._retry_at = now + self._pause_s
        self._change("open")

    def _change(self, state: State) -> None:
        self.state = state
        self._period += 1
        self._on_change(state)

    def _broken(self, retry_after_s: float) -> Broken:
        self.held_back += 1
        return Broken(f"{self._model} kept failing and is left alone for a while", retry_after_s)
