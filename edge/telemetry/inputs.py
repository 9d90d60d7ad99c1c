"""How inputs look: a histogram of their means and one of their deviations. Pure.

A look costs ten times as much as counting a sample does, so one sample in `EVERY` is looked at;
which one does not depend on what it holds.
"""

import numpy as np
from numpy.typing import NDArray

from shared.fleet.telemetry import INPUT_BINS, InputSketch

EVERY = 16
_VALUES_MAX = 4096  # of one sample: a stride through a large one says the same
_FULL = 255.0


class Inputs:
    __slots__ = ("_deviation", "_mean", "_samples")

    def __init__(self) -> None:
        self._samples = 0
        self._mean, self._deviation = [0] * INPUT_BINS, [0] * INPUT_BINS

    def look(self, tensor: NDArray[np.uint8]) -> None:
        """uint8, any shape."""
        flat = tensor.reshape(-1)
        if flat.size == 0:
            return
        values = flat[:: -(-flat.size // _VALUES_MAX)].astype(np.float32)
        mean = float(values.sum()) / values.size
        variance = max(float(values.dot(values)) / values.size - mean * mean, 0.0)
        self._samples += 1
        self._mean[_bin(mean)] += 1
        self._deviation[_bin(variance**0.5)] += 1

    def document(self) -> InputSketch:
        return InputSketch(
            samples=self._samples, mean=tuple(self._mean), deviation=tuple(self._deviation)
        )


def _bin(value: float) -> int:
    return min(int(value / _FULL * INPUT_BINS), INPUT_BINS - 1)
