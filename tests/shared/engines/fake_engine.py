"""An engine without a runtime: it answers what it is told to, in the time that it is told to."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from shared.engines.engine import Absent, Available, OpenOptions, Session, TensorInfo
from tests.tiny_bundle import tiny_logits

INPUT = TensorInfo("image", "uint8", (None, 4, 4))
OUTPUT = TensorInfo("logits", "float32", (None, 3))


@dataclass
class Clock:
    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


@dataclass
class FakeEngine:
    name: str
    clock: Clock
    run_s: float = 0.001
    found: Available | Absent = field(default_factory=lambda: Available("1.0", ("CPU",)))
    bend: Callable[[NDArray[np.float32]], NDArray[np.float32]] = lambda logits: logits
    input: TensorInfo = INPUT
    fails: Exception | None = None
    probes: int = 0
    opened: list["FakeSession"] = field(default_factory=list)

    def probe(self) -> Available | Absent:
        self.probes += 1
        return self.found

    def open(self, artifact: bytes, options: OpenOptions) -> Session:
        if self.fails is not None:
            raise self.fails
        session = FakeSession(self, options.batch_max)
        self.opened.append(session)
        return session


class FakeSession:
    outputs = (OUTPUT,)

    def __init__(self, engine: FakeEngine, batch_max: int) -> None:
        self._batch_max = batch_max
        self._engine = engine
        self.inputs = (engine.input,)
        self.closed = False
        self.runs = 0

    def run(self, batch: NDArray[np.generic]) -> NDArray[np.float32]:
        self.runs += 1
        assert len(batch) <= self._batch_max, "over what the engine was compiled for"
        self._engine.clock.now_s += self._engine.run_s
        return self._engine.bend(tiny_logits(batch.astype(np.uint8)))

    def close(self) -> None:
        self.closed = True
