"""What Triton's statistics extension tells of each model: counts and nanoseconds.

One thread's, the event loop's.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from cloud.api.schemas import Duration, InferStatistics, ModelStatistics

_MODELS_MAX = 256  # what is counted by name must not fill memory; the oldest is forgotten
_NS = 1_000_000_000


@dataclass(slots=True)
class _Model:
    rows: int = 0
    last: float = 0.0
    answered: int = 0
    total_s: float = 0.0
    decode_s: float = 0.0
    encode_s: float = 0.0
    ran: int = 0  # of those, by the model or by a rule
    queue_s: float = 0.0
    run_s: float = 0.0
    cached: int = 0
    cached_s: float = 0.0
    failed: int = 0
    failed_s: float = 0.0


class CallStatistics:
    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        """`wall` gives Unix time."""
        self._wall = wall
        self.catch_up: Callable[[], None] = lambda: None
        """Called before anybody reads; for who counts many at once."""
        self._models: dict[tuple[str, str], _Model] = {}

    @property
    def has_any(self) -> bool:
        """Whether a call ever found its model."""
        self.catch_up()
        return bool(self._models)

    def answered(
        self, name: str, version: str, source: str, calls: int, rows: int,
        total_s: float, decode_s: float, queue_s: float, run_s: float, encode_s: float,
    ) -> None:  # fmt: skip
        """Sums of so many calls. `source` as in the answer: cloud, cache or rule."""
        model = self._of(name, version)
        model.rows += rows
        model.last = self._wall()
        model.answered += calls
        model.total_s += total_s
        model.decode_s += decode_s
        model.encode_s += encode_s
        if source == "cache":
            model.cached += calls
            model.cached_s += total_s
        else:
            model.ran += calls
            model.queue_s += queue_s
            model.run_s += run_s

    def failed(self, name: str, version: str, total_s: float) -> None:
        """Of a call that found its model: refused, too late, or a fault."""
        model = self._of(name, version)
        model.failed += 1
        model.failed_s += total_s

    def of(self, name: str, version: str, batches: int) -> ModelStatistics:
        """`batches`: how many the model ran, which its batcher knows."""
        self.catch_up()
        model = self._models.get((name, version)) or _Model()
        return ModelStatistics(
            name=name,
            version=version,
            last_inference=int(model.last * 1000),
            inference_count=model.rows,
            execution_count=batches,
            inference_stats=InferStatistics(
                success=_told(model.answered, model.total_s),
                fail=_told(model.failed, model.failed_s),
                queue=_told(model.ran, model.queue_s),
                compute_input=_told(model.answered, model.decode_s),
                compute_infer=_told(model.ran, model.run_s),
                compute_output=_told(model.answered, model.encode_s),
                cache_hit=_told(model.cached, model.cached_s),
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


def _told(count: int, seconds: float) -> Duration:
    return Duration(count=count, ns=int(seconds * _NS))
