"""What one input looks like, in a handful of numbers; the same on devices and in training. Pure.

A bundle's reference sketches are counts of these over its calibration inputs, so both ends must
compute them from the same definition. Each is a float in the units of the input (uint8: 0..255).
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

INPUT_FEATURES: Final = ("input_mean", "input_std", "input_low", "input_detail")
"""Mean and standard deviation; the 10th percentile (a black background is gone under a camera fault);
the mean absolute difference between neighbours along the last axis (blur lowers it, noise raises it).
"""
ANSWER_FEATURES: Final = ("confidence", "predicted_class")
"""Calibrated confidence of the winner, in 0..1; its index."""
_VALUES_MAX: Final = 4096  # of one sample: a stride through a large one says the same


def input_features(tensor: NDArray[np.uint8]) -> tuple[float, float, float, float]:
    """In the order of `INPUT_FEATURES`. uint8, any shape; zeros for an empty one."""
    if tensor.size == 0:
        return 0.0, 0.0, 0.0, 0.0
    rows = tensor.reshape(-1, tensor.shape[-1]) if tensor.ndim else tensor.reshape(1, 1)
    rows = rows[:: -(-tensor.size // _VALUES_MAX)]
    values = rows.astype(np.float32)
    flat = values.reshape(-1)
    mean = float(flat.sum()) / flat.size
    variance = max(float(flat.dot(flat)) / flat.size - mean * mean, 0.0)
    tenth = flat.size // 10
    low = float(np.partition(flat, tenth)[tenth])
    across = values[:, 1:] - values[:, :-1]
    detail = float(np.abs(across).sum()) / max(across.size, 1)
    return mean, variance**0.5, low, detail
