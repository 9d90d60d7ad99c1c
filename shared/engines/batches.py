"""What every session checks before a batch reaches native code."""

import numpy as np
from numpy.typing import NDArray

from shared.engines.engine import TensorInfo
from shared.errors import Malformed


def sole_input(inputs: tuple[TensorInfo, ...], where: str) -> TensorInfo:
    """The one input of the graph, with a free batch axis and fixed sizes behind it."""
    if len(inputs) != 1:
        names = ", ".join(tensor.name for tensor in inputs)
        raise Malformed(f"{where}: the graph has {len(inputs)} inputs ({names}); it must have one")
    tensor = inputs[0]
    if not tensor.shape or tensor.shape[0] is not None or None in tensor.shape[1:]:
        raise Malformed(
            f"{where}: input '{tensor.name}' is {described(tensor)}; export it with a free batch "
            "axis in front and fixed sizes behind"
        )
    return tensor


class BatchCheck:
    """`check(batch)` for one input; its common path is two comparisons."""

    def __init__(self, tensor: TensorInfo, where: str) -> None:
        self._where = where
        self._tensor = tensor
        self._dtype = np.dtype(tensor.dtype)
        self._shape = tensor.shape[1:]
        self._is_float = self._dtype.kind == "f"

    def check(self, batch: NDArray[np.generic]) -> None:
        """Raises `Malformed` for a wrong dtype or shape, an empty batch, NaN or infinity."""
        if batch.dtype != self._dtype or batch.shape[1:] != self._shape or not batch.ndim:
            raise Malformed(
                f"{self._where}: input '{self._tensor.name}' got "
                f"{batch.dtype}{list(batch.shape)}; expected {described(self._tensor)}"
            )
        if not len(batch):
            raise Malformed(f"{self._where}: input '{self._tensor.name}' got an empty batch")
        if self._is_float and not np.isfinite(batch).all():
            raise Malformed(f"{self._where}: input '{self._tensor.name}' holds NaN or infinity")


def described(tensor: TensorInfo) -> str:
    """`uint8[N, 28, 28]`, as it stands in messages."""
    sizes = ", ".join("N" if size is None else str(size) for size in tensor.shape)
    return f"{tensor.dtype}[{sizes}]"
