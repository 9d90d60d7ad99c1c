"""How fast bytes may come: a bucket that may go into debt by one piece. Pure, `now` is given."""

import math

from shared.errors import Malformed


class Pace:
    """`bytes_per_s` on average, and `burst_s` seconds' worth at once. Starts full.

    One pace may serve several transfers: they share its rate.
    """

    __slots__ = ("_at", "_bytes_per_s", "_capacity", "_left")

    def __init__(self, bytes_per_s: float, burst_s: float = 1.0) -> None:
        """Raises `Malformed` unless both are positive and finite."""
        if not all(math.isfinite(value) and value > 0 for value in (bytes_per_s, burst_s)):
            raise Malformed(
                f"a pace of {bytes_per_s} bytes/s with bursts of {burst_s} s: both must be finite "
                "and above 0"
            )
        self._bytes_per_s = bytes_per_s
        self._capacity = bytes_per_s * burst_s
        self._left = self._capacity
        self._at = -math.inf

    def spend(self, bytes_: int, now: float) -> float:
        """Count bytes that have come; returns the seconds to wait before asking for more.

        `now` is in seconds of any clock; one that steps back gives nothing and takes nothing.
        """
        if now > self._at:
            gained = (now - self._at) * self._bytes_per_s
            self._left = min(self._capacity, self._left + gained)
            self._at = now
        self._left -= bytes_
        return max(0.0, -self._left / self._bytes_per_s)
