"""How many rows a second arrive, as of late. Pure.

The estimate is the sum of what arrived, each row weighted by exp(-age / memory) / memory: one
multiplication a batch, no window to keep. It starts at 0 and so errs towards "nobody will come",
which costs a batch its company and never a request its time.
"""

from math import exp


class ArrivalRate:
    """Times are seconds of one monotonic clock."""

    def __init__(self, memory_s: float = 0.25) -> None:
        """`memory_s`: after it, a burst counts for 37%.

        A quarter of a second is hundreds of batches of a quick model, and short beside the minutes
        in which load changes.
        """
        self._memory_s = memory_s
        self._per_s = self._at = 0.0

    def saw(self, rows: int, now: float) -> None:
        """`rows` have arrived since the last call."""
        self._per_s = self.per_s(now) + rows / self._memory_s
        self._at = now

    def per_s(self, now: float) -> float:
        """Rows a second."""
        return self._per_s * exp((self._at - now) / self._memory_s)
