"""An image as characters of a terminal: two pixels in each, one above the other. Pure."""

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from rich.text import Text

_RAMP: Final = " .:-=+*#%@"
Pixels = NDArray[np.uint8]
"""[height, width, 3]."""


def picture(pixels: Pixels, columns: int, *, has_colours: bool) -> "Text":
    """At most `columns` wide, each pixel once where there is room for that; a darker character for a
    darker pixel where the terminal has no colours.
    """
    from rich.text import Text

    shown = _fitted(pixels, columns)
    drawn = Text(no_wrap=True)
    for row in range(0, shown.shape[0], 2):
        upper = shown[row]
        lower = shown[row + 1] if row + 1 < shown.shape[0] else np.zeros_like(upper)
        for above, below in zip(upper.tolist(), lower.tolist(), strict=True):
            if has_colours:
                drawn.append("▀", f"{_hex(above)} on {_hex(below)}")
            else:
                light = (sum(above) + sum(below)) / (6 * 255)
                drawn.append(_RAMP[min(int(light * len(_RAMP)), len(_RAMP) - 1)])
        drawn.append("\n")
    return drawn


def _fitted(pixels: Pixels, columns: int) -> Pixels:
    """Narrower by whole blocks, each the mean of its pixels."""
    block = -(-pixels.shape[1] // max(columns, 1))
    if block == 1:
        return pixels
    height, width = pixels.shape[0] // block * block, pixels.shape[1] // block * block
    cut = pixels[:height, :width].astype(np.float32)
    means = cut.reshape(height // block, block, width // block, block, 3).mean(axis=(1, 3))
    return np.asarray(means, np.uint8)


def _hex(colour: list[int]) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)
