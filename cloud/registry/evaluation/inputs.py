"""What can be done to a model's inputs without making them something else."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.generic]
Kind = Literal["noise", "blur", "brighter", "darker"]
_IMAGE_SIDE_MIN = 8
_CHANNELS_MAX = 4
_CONTINUOUS = ("uint8", "float16", "float32")


@dataclass(frozen=True, slots=True)
class Domain:
    """Where input values lie: 0..255 for uint8, what the data holds for every other dtype."""

    dtype: str
    low: float
    high: float
    image_axes: tuple[int, int] | None  # of height and width in a batch [N, ...]

    @property
    def span(self) -> float:
        return self.high - self.low

    def why_not(self, kind: Kind | Literal["fgsm"]) -> str:
        """Why this change makes no sense for these inputs; "" when it does."""
        if self.dtype not in _CONTINUOUS:
            return (
                f"{self.dtype} inputs may be codes, where a value in between means something else"
            )
        if not self.span > 0:
            return "all input values are the same"
        if kind in ("blur", "brighter", "darker") and self.image_axes is None:
            return "the inputs are no images (height and width of 8 or more, at most 4 channels)"
        return ""

    def clipped(self, values: NDArray[np.float32]) -> Array:
        """Back to the inputs' own range and dtype; integers are rounded."""
        if self.dtype == "uint8":
            values = np.rint(values)
        return np.clip(values, self.low, self.high).astype(self.dtype)


def domain_of(inputs: Array) -> Domain:
    """From evaluation data [N, ...]; finite."""
    if inputs.dtype == np.uint8:
        low, high = 0.0, 255.0
    else:
        low, high = float(np.asarray(inputs.min())), float(np.asarray(inputs.max()))
    return Domain(inputs.dtype.name, low, high, _image_axes(inputs.shape[1:]))


def _image_axes(shape: tuple[int, ...]) -> tuple[int, int] | None:
    match shape:
        case (height, width) if min(height, width) >= _IMAGE_SIDE_MIN:
            return 1, 2
        case (height, width, channels) if (
            channels <= _CHANNELS_MAX and min(height, width) >= _IMAGE_SIDE_MIN
        ):
            return 1, 2
        case (channels, height, width) if (
            channels <= _CHANNELS_MAX and min(height, width) >= _IMAGE_SIDE_MIN
        ):
            return 2, 3
        case _:
            return None
