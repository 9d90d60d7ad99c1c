"""The one small protocol that every engine fits."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class TensorInfo:
    name: str
    dtype: str  # numpy name
    shape: tuple[int | None, ...]  # None is the free batch axis, always the first


class Session(Protocol):
    """An open variant. Not shared between threads; `run` may be called from any one thread."""

    @property
    def inputs(self) -> tuple[TensorInfo, ...]: ...

    @property
    def outputs(self) -> tuple[TensorInfo, ...]: ...

    def run(self, batch: NDArray[np.generic]) -> NDArray[np.float32]:
        """Run one batch [N, ...] through a model of one input; its first output [N, ...].

        The answer is the caller's own array. Raises `Malformed` for a wrong dtype or shape.
        """
        ...

    def close(self) -> None: ...
