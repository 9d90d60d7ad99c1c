"""The one small protocol that every engine fits."""

from dataclasses import dataclass
from pathlib import Path
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


@dataclass(frozen=True, slots=True)
class Available:
    """This machine can run the engine."""

    version: str
    devices: tuple[str, ...]  # "CPU", "GPU", "NPU", ...: by the engine's own names, best first


@dataclass(frozen=True, slots=True)
class Absent:
    """This machine cannot run the engine; `reason` is one line that says why and what to do."""

    reason: str


@dataclass(frozen=True, slots=True)
class OpenOptions:
    where: str = "model"  # what error messages call the artifact
    threads: int = 1
    cache_dir: Path | None = None  # for compiled engines; nothing is cached when None
    batch_max: int = 32  # engines that compile for a range of batches compile for 1..this


class Engine(Protocol):
    """What runs variants of one kind. Heavy imports happen in `probe` and `open`, not before."""

    @property
    def name(self) -> str: ...

    def probe(self) -> Available | Absent:
        """Look, at little cost, whether this machine can run the engine; never raises."""
        ...

    def open(self, artifact: bytes, options: OpenOptions) -> Session:
        """Load an artifact. Raises `Malformed` when it is no graph that this engine takes, and
        `Unavailable` when the engine or its device is not here.
        """
        ...
