"""A token bucket that may go into debt by one message, because a message is never cut."""

import math


class Bucket:
    """`rate` units a second, up to `burst_s` seconds' worth at once. Starts full."""

    def __init__(self, rate: float | None, burst_s: float, now: float) -> None:
        self._rate = math.inf if rate is None else rate
        self._capacity = max(self._rate * burst_s, 1.0)
        self._tokens, self._at = self._capacity, now

    def retune(self, rate: float | None, burst_s: float, now: float) -> None:
        """Another rate from now on. A debt stays, unless nothing is limited any more; so does what is
        saved, up to the new capacity.
        """
        self._refill(now)
        self._rate = math.inf if rate is None else rate
        self._capacity = max(self._rate * burst_s, 1.0)
        if math.isinf(self._rate):
            self._tokens = self._capacity
        self._tokens = min(self._tokens, self._capacity)

    def spend(self, units: float, now: float) -> None:
        self._refill(now)
        self._tokens -= units

    def ready_at(self, now: float) -> float:
        """The moment from which a message may leave; `now` when it may at once."""
        self._refill(now)
        if self._tokens >= 1 or math.isinf(self._rate):
            return now
        return now + (1 - self._tokens) / self._rate

    def _refill(self, now: float) -> None:
        elapsed = max(now - self._at, 0.0)
        self._at = max(now, self._at)
        if not math.isinf(self._rate):
            self._tokens = min(self._capacity, self._tokens + elapsed * self._rate)
