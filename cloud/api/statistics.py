"""What Triton's statistics extension tells of each model: counts and nanoseconds.

`answered` costs under a microsecond; both lanes call it. One thread's, the event loop's.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from cloud.api.schemas import Duration, InferStatistics, ModelStatistics

_MODELS_MAX = 256  # what is counted by name must not fill memory; the oldest is forgotten
_NS = 1_000_000_000


@dataclass(slots=True)
class _Sum:
    count: int = 0
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        self.count += 1
        self.seconds += seconds

    def told(self) -> Duration:
        return Duration(count=self.count, ns=int(self.seconds * _NS))


@dataclass(slots=True)
class _Model:
    rows: int = 0
    last: float = 0.0
    success: _Sum = field(default_factory=_Sum)
    fail: _Sum = field(default_factory=_Sum)
    queue: _Sum = field(default_factory=_Sum)
    run: _Sum = field(default_factory=_Sum)
    decode: _Sum = field(default_factory=_Sum)
    encode: _Sum = field(default_factory=_Sum)
    cache_hit: _Sum = field(default_factory=_Sum)


class CallStatistics:
    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        """`wall` gives Unix time."""
        self._wall = wall
        self._models: dict[tuple[str, str], _Model] = {}

    @property
    def has_any(self) -> bool:
        """Whether a call ever found its model."""
        return bool(self._models)

    def answered(
        self, name: str, version: str, rows: int, source: str, *,
        total_s: float, decode_s: float, queue_s: float, run_s: float, encode_s: float,
    ) -> None:  # fmt: skip
        """`source` as in the answer: cloud, cache or rule."""
        model = self._of(name, version)
        model.rows += rows
        model.last = self._wall()
        model.success.add(total_s)
        model.decode.add(decode_s)
        model.encode.add(encode_s)
        if source == "cache":
            model.cache_hit.add(total_s)
        else:
            model.queue.add(queue_s)
            model.run.add(run_s)

    def failed(self, name: str, version: str, total_s: float) -> None:
        """Of a call that found its model: refused, too late, or a fault."""
        self._of(name, version).fail.add(total_s)

    def of(self, name: str, version: str, batches: int) -> ModelStatistics:
        """`batches`: how many the model ran, which its batcher knows."""
        model = self._models.get((name, version)) or _Model()
        return ModelStatistics(
            name=name,
            version=version,
            last_inference=int(model.last * 1000),
            inference_count=model.rows,
            execution_count=batches,
            inference_stats=InferStatistics(
                success=model.success.told(),
                fail=model.fail.told(),
                queue=model.queue.told(),
                compute_input=model.decode.told(),
                compute_infer=model.run.told(),
                compute_output=model.encode.told(),
                cache_hit=model.cache_hit.told(),
                cache_miss=Duration(),
            ),
        )

    def _of(self, name: str, version: str) -> _Model:
        model = self._models.get((name, version))
        if model is None:
            if len(self._models) >= _MODELS_MAX:
                del self._models[next(iter(self._models))]
            model = self._models[name, version] = _Model()
        return model
