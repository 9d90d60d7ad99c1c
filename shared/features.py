"""What one input looks like, in a handful of numbers; the same on devices and in training. Pure.

A bundle's reference sketches are counts of these over its calibration inputs, so both ends must
compute them from the same definition. Each is a float in the units of the input (uint8: 0..255).
"""

import math
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

INPUT_FEATURES: Final = ("input_mean", "input_std", "input_low", "input_detail")
"""Mean and standard deviation; the 10th percentile (a black background is gone under a camera fault);
the mean absolute difference between neighbours along the last axis (blur lowers it, noise raises it).
"""
ANSWER_FEATURES: Final = ("confidence", "predicted_class")
"""Calibrated confidence of the winner, in 0..1; its index."""

Features = tuple[float, float, float, float]

NOTHING_STD: Final = 0.5
"""An input whose values spread less has one value all over: uint8's smallest step is 1."""
_VALUES_MAX = 4096  # of one sample: every n-th row of a large one says the same
_CHANNELS_MAX = 4  # a last axis this short holds the colours of a pixel, and neighbours are pixels
_FOLD = 64  # values a row, of one row that is too long to be looked at whole
_THIN_FROM, _THIN = 512, 3  # a percentile of so many values needs but every third
_ONES = np.ones(2 * _VALUES_MAX, np.float32)


def input_features(tensor: NDArray[np.uint8]) -> Features:
    """In the order of `INPUT_FEATURES`. uint8, any shape; zeros for an empty one.

    Other types are taken as they are: what is no number comes out as none.
    """
    if tensor.size == 0:
        return 0.0, 0.0, 0.0, 0.0
    if tensor.dtype == np.uint8:
        return _features(tensor)
    with np.errstate(all="ignore"):
        return _features(tensor)


def nothing_to_see(features: Features) -> bool:
    """Of an empty input, or one with the same value all over."""
    return features[1] < NOTHING_STD


def _features(tensor: NDArray[np.uint8]) -> Features:
    width, step, every = _plan(tensor.shape)
    if every > 1:
        whole = tensor.reshape(-1)
        flat = whole[: whole.size // width * width].reshape(-1, width)[::every].reshape(-1)
    else:
        flat = tensor.reshape(-1)
    values = flat.astype(np.float32)
    size = values.size
    mean = float(values.dot(_ONES[:size])) / size
    variance = max(float(values.dot(values)) / size - mean * mean, 0.0)
    thin = flat[::_THIN].copy() if size >= _THIN_FROM else flat.copy()
    tenth = thin.size // 10
    thin.partition(tenth)
    if size <= step:
        return mean, variance**0.5, float(thin[tenth]), 0.0
    across = values[step:] - values[:-step]
    for last in range(width - step, width):
        across[last::width] = 0  # from the end of a row to the beginning of the next
    np.abs(across, out=across)
    pairs = size // width * (width - step)
    detail = float(across.dot(_ONES[: across.size])) / max(pairs, 1)
    return mean, variance**0.5, float(thin[tenth]), detail


@lru_cache(maxsize=64)
def _plan(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Values a row; how far neighbours are apart; every how many-th row is looked at."""
    step = 1
    width = shape[-1] if shape else 1
    if len(shape) > 2 and width <= _CHANNELS_MAX:
        step, width = width, width * shape[-2]
    size = math.prod(shape)
    if width > _VALUES_MAX:
        width = _FOLD * step
    return width, step, -(-size // _VALUES_MAX)
