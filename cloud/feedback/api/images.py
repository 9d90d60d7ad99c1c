"""A sample as people see it: PNG. Pure but for pillow."""

import io
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from shared.errors import Malformed, TooLarge

_GREY: Final = 1
_COLOUR: Final = 3


def png(tensor: NDArray[np.uint8], pixels_max: int) -> bytes:
    """Of uint8 [H, W], [H, W, 1 or 3] or [1 or 3, H, W].

    Raises `Malformed` for what is no image, `TooLarge` for one of too many pixels.
    """
    pixels = _pixels(tensor)
    count = pixels.shape[0] * pixels.shape[1]
    if count > pixels_max:
        raise TooLarge(
            f"the image has {count} pixels; at most {pixels_max} are drawn: fetch it raw"
        )
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(file, "PNG")
    return file.getvalue()


def _pixels(tensor: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """[H, W] or [H, W, 3]."""
    shape = tensor.shape
    match shape:
        case (_, _):
            return tensor
        case (_, _, last) if last in {_GREY, _COLOUR}:
            return tensor[:, :, 0] if last == _GREY else tensor
        case (first, _, _) if first in {_GREY, _COLOUR}:
            return tensor[0] if first == _GREY else np.moveaxis(tensor, 0, -1)
        case _:
            raise Malformed(
                f"a sample of shape {shape} is no image: want [H, W], [H, W, 3] or [3, H, W]; "
                "fetch it as a tensor"
            )
