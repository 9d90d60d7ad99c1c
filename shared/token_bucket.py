"""How often something may happen: a token bucket. Pure, `now` is given."""

import math

from shared.errors import Malformed


class TokenBucket:
    """Lets `rate_per_s` events a second pass on average, and `burst` at once after a pause."""

    __slots__ = ("_burst", "_last", "_rate_per_s", "_tokens")

    def __init__(self, rate_per_s: float, burst: float) -> None:
        """Start full.

        Raises:
            Malformed: the rate is not a positive finite number, or the burst is below one event.

        """
        if not (math.isfinite(rate_per_s) and rate_per_s > 0):
            raise Malformed(f"a rate of {rate_per_s} events/s: it must be finite and above 0")
        if not (math.isfinite(burst) and burst >= 1):
            raise Malformed(f"a burst of {burst} events: it must be finite and at least 1")
        self._rate_per_s = rate_per_s
        self._burst = burst
        self._tokens = burst
        self._last = -math.inf

    def take(self, now: float) -> bool:
        """Take one event's token at `now` (seconds, any epoch); False: too many, refuse it.

        A clock that steps back gives nothing and takes nothing.
        """
        if now > self._last:
            gained = (now - self._last) * self._rate_per_s
            self._tokens = min(self._burst, self._tokens + gained)
            self._last = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
