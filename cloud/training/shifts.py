"""The six shifts that a camera suffers, as the models are tested on them.

Fixed strengths, one seed, numpy and scipy: the same images on every machine. What training does
to its images (`augment.py`) is random in kind and strength and shares no code with this.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

Images = NDArray[np.uint8]
_Floats = NDArray[np.float32]


def _rotate(x: _Floats, _: np.random.Generator) -> _Floats:
    return np.asarray(ndimage.rotate(x, 20, axes=(1, 2), reshape=False, order=1), np.float32)


def _blur(x: _Floats, _: np.random.Generator) -> _Floats:
    return np.asarray(ndimage.gaussian_filter(x, (0, 1.0, 1.0)), np.float32)


def _noise(x: _Floats, rng: np.random.Generator, sigma: float = 30.0) -> _Floats:
    return x + rng.normal(0, sigma, x.shape).astype(np.float32)


def _camera_fault(x: _Floats, rng: np.random.Generator) -> _Floats:
    return _noise(ndimage.gaussian_filter(x * 0.55 + 40, (0, 0.8, 0.8)), rng, 12.0)


SHIFTS: dict[str, Callable[[_Floats, np.random.Generator], _Floats]] = {
    "rotate 20 deg": _rotate,
    "blur 1.0": _blur,
    "brightness +60": lambda x, _: x + 60,
    "contrast x 0.4": lambda x, _: x * 0.4,
    "noise 30": _noise,
    "camera fault": _camera_fault,
}


def shift(images: Images, kind: str, seed: int = 0) -> Images:
    """Apply one of `SHIFTS` to uint8 images [N, H, W]."""
    shifted = SHIFTS[kind](images.astype(np.float32), np.random.default_rng(seed))
    return np.clip(shifted, 0, 255).astype(np.uint8)
