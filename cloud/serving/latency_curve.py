"""How long a batch of n takes: measured when a model loads, corrected while it serves. Pure."""

from bisect import bisect_left
from collections.abc import Mapping

_WEIGHT = 0.05  # of one observation: twenty batches move the estimate, one hiccup does not
_FACTOR_MIN, _FACTOR_MAX = 0.5, 20.0


class LatencyCurve:
    """Seconds by batch size: linear between measured sizes, never falling."""

    def __init__(self, measured_s: Mapping[int, float]) -> None:
        if not measured_s or min(measured_s) < 1 or min(measured_s.values()) < 0:
            raise ValueError(f"a curve needs sizes >= 1 and seconds >= 0, not {measured_s}")
        sizes = sorted(measured_s)
        floor = 0.0
        points: list[tuple[int, float]] = []
        for size in sizes:
            floor = max(floor, measured_s[size])
            points.append((size, floor))
        self._base_s = [0.0] * (sizes[-1] + 1)
        for size in range(1, sizes[-1] + 1):
            self._base_s[size] = _between(points, size)
        self._factor = 1.0

    def cost_s(self, size: int) -> float:
        """Expected seconds for a batch of `size` >= 1; past the measured sizes, in proportion."""
        last = len(self._base_s) - 1
        if size <= last:
            return self._base_s[size] * self._factor
        return self._base_s[last] * self._factor * size / last

    def observe(self, size: int, took_s: float) -> None:
        """A batch has run; the machine may be busier or cooler than when the model loaded."""
        expected = self._base_s[min(size, len(self._base_s) - 1)]
        if expected > 0:
            ratio = min(max(took_s / expected, _FACTOR_MIN), _FACTOR_MAX)
            self._factor += _WEIGHT * (ratio - self._factor)

    def table_ms(self) -> dict[int, float]:
        """For people: milliseconds at powers of two."""
        sizes = [1 << k for k in range(16) if 1 << k < len(self._base_s)]
        return {size: round(self.cost_s(size) * 1e3, 3) for size in sizes}


def _between(points: list[tuple[int, float]], size: int) -> float:
    at = bisect_left(points, (size, 0.0))
    right, right_s = points[at]
    if at == 0 or right == size:
        return right_s
    left, left_s = points[at - 1]
    return left_s + (right_s - left_s) * (size - left) / (right - left)
