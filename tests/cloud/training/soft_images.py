import numpy as np
from numpy.typing import NDArray


def soft_images(count: int) -> NDArray[np.uint8]:
    """Bright blots on black [N, 28, 28], of the kind that compresses."""
    rng = np.random.default_rng(2)
    y, x = np.mgrid[:28, :28]
    centre, width = rng.uniform(8, 20, (2, count, 1, 1)), rng.uniform(3, 8, (count, 1, 1))
    distance = (y - centre[0]) ** 2 + (x - centre[1]) ** 2
    return (255 * np.exp(-distance / width**2)).astype(np.uint8)
