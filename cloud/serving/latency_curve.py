"""How long a batch of n rows takes: measured when a model loads, corrected while it serves. Pure."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping

_WEIGHT = 0.05  # of one observation: twenty batches move the estimate
_HICCUP = 4.0  # times what is expected; what takes longer counts as this: one moves it by 15%
_FACTOR_MIN, _FACTOR_MAX = 0.05, 20.0
_STEP = 0.02  # of the quick quarter's estimate: some dozens of batches move it, one does not
_WORTH_TELLING = 0.02  # below this change, whoever holds a table of costs need not make a new one


class LatencyCurve:
    """Seconds by batch size: linear between measured sizes, never falling.

    `revision` grows when the costs have changed by enough to matter.
    """

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
        self._learnt = self._factor = self._quick = 1.0
        self.revision = 0

    def cost_s(self, size: int) -> float:
        """Expected seconds for a batch of `size` rows; past the measured sizes, in proportion."""
        return self._measured_s(size) * self._factor

    def quick_s(self, size: int) -> float:
        """What a quarter of the batches of `size` rows take no more than, as of late.

        That is their work, without waits for a core or, in a thread, for the interpreter's lock.
        """
        return self._measured_s(size) * self._quick

    def observe(self, size: int, took_s: float) -> None:
        """A batch has run; the machine may be busier or cooler than when the model loaded."""
        expected = self._measured_s(size)
        if expected <= 0:
            return
        ratio = max(took_s / expected, _FACTOR_MIN)
        step = -3 * _STEP if ratio < self._quick else _STEP
        self._quick = min(self._quick * (1 + step), _FACTOR_MAX)
        ratio = min(ratio, _HICCUP * self._learnt, _FACTOR_MAX)
        self._learnt += _WEIGHT * (ratio - self._learnt)
        if abs(self._learnt - self._factor) > _WORTH_TELLING * self._factor:
            self._factor = self._learnt
            self.revision += 1

    def efficient(self, sizes: Iterable[int], share: float) -> int:
        """The smallest of `sizes` that gives at least `share` of the best one's rows a second."""
        ascending = sorted(sizes)
        # rows/s as its inverse, seconds a row, because a measured cost may be 0
        row_s = [self._measured_s(size) / size for size in ascending]
        return next(
            size for size, one in zip(ascending, row_s, strict=True) if one * share <= min(row_s)
        )

    def table_ms(self) -> dict[int, float]:
        """For people: milliseconds at powers of two."""
        sizes = [1 << k for k in range(16) if 1 << k < len(self._base_s)]
        return {size: round(self.cost_s(size) * 1e3, 3) for size in sizes}

    def _measured_s(self, size: int) -> float:
        last = len(self._base_s) - 1
        return self._base_s[size] if size <= last else self._base_s[last] * size / last


def _between(points: list[tuple[int, float]], size: int) -> float:
    at = bisect_left(points, (size, 0.0))
    right, right_s = points[at]
    if at == 0 or right == size:
        return right_s
    left, left_s = points[at - 1]
    return left_s + (right_s - left_s) * (size - left) / (right - left)
