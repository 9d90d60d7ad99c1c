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
_UINT8 = np.dtype(np.uint8)


def input_features(tensor: NDArray[np.uint8]) -> Features:
    """In the order of `INPUT_FEATURES`. uint8, any shape; zeros for an empty one.

    Other types are taken as they are: what is no number comes out as none.
    """
    if tensor.size == 0:
        return 0.0, 0.0, 0.0, 0.0
    if tensor.dtype == _UINT8:
        return _features(tensor)
    with np.errstate(all="ignore"):
        return _features(tensor)


def nothing_to_see(features: Features) -> bool:
    """Of an empty input, or one with the same value all over."""
    return features[1] < NOTHING_STD


def _features(tensor: NDArray[np.uint8]) -> Features:
    plan = _plan(tensor.shape)
    width, step, every, size, pairs, ones, inside = plan
    flat = tensor.reshape(-1)
    if every > 1 or flat.size != size:
        flat = flat[: flat.size // width * width].reshape(-1, width)[::every].reshape(-1)
    values = flat.astype(np.float32)
    mean = float(values.dot(ones)) / size
    variance = max(float(values.dot(values)) / size - mean * mean, 0.0)
    thin = flat[::_THIN].copy() if size >= _THIN_FROM else flat.copy()
    tenth = thin.size // 10
    thin.partition(tenth)
    low = float(thin[tenth])
    if not pairs:
        return mean, variance**0.5, low, 0.0
    across = values[step:] - values[:-step]
    np.abs(across, out=across)
    return mean, variance**0.5, low, float(across.dot(inside)) / pairs


_Plan = tuple[int, int, int, int, int, NDArray[np.float32], NDArray[np.float32]]


@lru_cache(maxsize=16)
def _plan(shape: tuple[int, ...]) -> _Plan:
    """Of the inputs of this shape: values a row, how far neighbours are apart, every how many-th row
    is looked at, how many values that makes, and pairs of neighbours; ones for all of the values, and
    for those that have a neighbour in their row.
    """
    step = 1
    width = shape[-1] if shape else 1
    if len(shape) > 2 and width <= _CHANNELS_MAX:
        step, width = width, width * shape[-2]
    whole = math.prod(shape)
    if width > _VALUES_MAX:
        width = _FOLD * step
    every = -(-whole // _VALUES_MAX)
    rows = -(-(whole // width) // every)
    inside = np.zeros((rows, width), np.float32)
    inside[:, : width - step] = 1
    size = rows * width
    ones = np.ones(size, np.float32)
    return width, step, every, size, int(inside.sum()), ones, inside.reshape(-1)[: size - step]
