"""A cloud model that is loaded, warm and measured; opening it held it to its golden samples."""

import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from cloud.serving.job import Calibrated, Floats, Outputs, Rows
from cloud.serving.latency_curve import LatencyCurve
from cloud.serving.opening import Opened
from cloud.serving.padding import parts, powers_of_two
from shared.bundle.manifest import Manifest, Tensor
from shared.bundle.reader import Bundle
from shared.engines.engine import Session
from shared.errors import Malformed, Unknown
from shared.wire.envelope import Payload
from shared.wire.pixels import Decoder

_RUNS = 7  # of each batch size; their median resists a hiccup
_MEASURE_S_MAX = 2.0  # for the whole curve: a slow model is measured less often
_WARM_S_MAX = 2.0  # for the sizes between the measured ones; engines specialise at first runs

Pixels = NDArray[np.uint8]


class UnknownDictionary(Unknown):
    """A payload was compressed with a dictionary that this model's bundle does not hold."""


class Predictor:
    """Runs batches in a buffer of its own, so one thread at a time may call it."""

    def __init__(
        self,
        session: Session,
        inputs: NDArray[np.generic],
        sizes: tuple[int, ...],
        temperature: float,
    ) -> None:
        """`inputs` [size_max, ...] is the buffer; `sizes`: see `padding.parts`."""
        self._run, self._inputs, self._sizes = session.run, inputs, sizes
        self._temperature = temperature

    def __call__(self, rows: Sequence[Rows]) -> Outputs:
        """Outputs of all rows in their order; `rows` are each job's [n, *input shape].

        One copy a row. Raises `Unavailable` when the engine fails, `Malformed` for NaN, and
        ValueError for rows of another shape.
        """
        count = 0
        for part in rows:
            count += len(part)
        if count > len(self._inputs):
            logits = self._in_pieces(np.concatenate(rows))
        else:
            np.concatenate(rows, out=self._inputs[:count])
            logits = self._logits(count)
        return Outputs(logits, Calibrated(logits, self._temperature))

    def _logits(self, count: int) -> Floats:
        """Of the first `count` rows of the buffer."""
        if not self._sizes:
            return self._run(self._inputs[:count])
        answers: list[Floats] = []
        for part in parts(count, self._sizes):
            end = part.start + part.size
            self._inputs[part.start + part.rows : end] = 0  # never the rows of a batch before
            answers.append(self._run(self._inputs[part.start : end])[: part.rows])
        return answers[0] if len(answers) == 1 else np.concatenate(answers)

    def _in_pieces(self, whole: Rows) -> Floats:
        size = len(self._inputs)
        answers: list[Floats] = []
        for start in range(0, len(whole), size):
            piece = whole[start : start + size]
            self._inputs[: len(piece)] = piece
            answers.append(self._logits(len(piece)))
        return np.concatenate(answers)


class LoadedModel:
    """`predict` may be called by `lanes` threads at once."""

    def __init__(
        self, bundle: Bundle, opened: Opened, *, size_max: int, sample: Tensor | None = None
    ) -> None:
        """Warms up and measures, which takes up to some seconds.

        `sample`: what a request carries, where that is no input of this graph, as with a head of a
        backbone. Raises `Malformed` for a model of more than one input.
        """
        manifest = bundle.manifest
        if len(manifest.inputs) != 1:
            names = ", ".join(tensor.name for tensor in manifest.inputs)
            raise Malformed(
                f"{bundle.where}: has {len(manifest.inputs)} inputs ({names}); one is served"
            )
        self.manifest: Manifest = manifest
        self.engine, self.variant, self.why = opened.engine, opened.variant, opened.why
        self.remote = opened.engine == "triton"
        """Another process computes: a run waits, and takes no memory here."""
        self.size_max, self.lanes = min(size_max, opened.size_max), opened.lanes
        self._session, self._sizes = opened.session, opened.sizes
        self._tensor = manifest.inputs[0]
        self.sample = sample or self._tensor
        """What a request carries for each row."""
        self._decoder = Decoder((bundle.dictionary,) if bundle.dictionary else ())
        self._free = [self._predictor() for _ in range(self.lanes)]
        self.predict: Callable[[Sequence[Rows]], Outputs]
        """See `Predictor`."""
        self.predict = self._free[0] if self.lanes == 1 else self._predict_in_a_lane
        self.curve = self._measure(bundle.golden.inputs)

    @property
    def name(self) -> str:
        return self.manifest.name

    @property
    def version(self) -> str:
        return self.manifest.version

    def _predictor(self) -> Predictor:
        inputs = np.zeros((self.size_max, *self._tensor.shape), self._tensor.dtype)
        temperature = self.manifest.calibration.temperature
        return Predictor(self._session, inputs, self._sizes, temperature)

    def decode(self, payload: Payload) -> Pixels:
        """The sample, [input shape]; raises `Malformed`, `TooLarge` or `UnknownDictionary`."""
        if self.sample.dtype != "uint8":
            raise Malformed(
                f"{self.name} {self.version} takes {self.sample.dtype}; escalations carry uint8: "
                "ask it over HTTP"
            )
        if payload.shape != self.sample.shape:  # before a byte is decompressed
            raise Malformed(
                f"payload shape {list(payload.shape)}; {self.name} {self.version} takes uint8 "
                f"{list(self.sample.shape)}"
            )
        try:
            return self._decoder.decode(payload)
        except Unknown as error:
            raise UnknownDictionary(str(error)) from error

    def close(self) -> None:
        self._session.close()

    def _predict_in_a_lane(self, rows: Sequence[Rows]) -> Outputs:
        predictor = self._free.pop()
        try:
            return predictor(rows)
        finally:
            self._free.append(predictor)

    def _measure(self, golden: NDArray[np.generic]) -> LatencyCurve:
        """Every batch size runs once, some are timed; engines allocate and specialise thereby."""
        copies = -(-self.size_max // len(golden))
        samples = np.concatenate([golden] * copies)[: self.size_max]
        warm_until = time.perf_counter() + _WARM_S_MAX
        for size in range(1, self.size_max + 1):
            if time.perf_counter() < warm_until:
                self.predict([samples[:size]])
        timed = powers_of_two(self.size_max)
        share_s = _MEASURE_S_MAX / len(timed)
        return LatencyCurve({size: self._time(samples[:size], share_s) for size in timed})

    def _time(self, samples: Rows, s_max: float) -> float:
        jobs = list(samples[:, None])  # as many jobs of one row: what they cost to gather counts
        took: list[float] = []
        started = time.perf_counter()
        while len(took) < _RUNS and (not took or time.perf_counter() - started < s_max):
            began = time.perf_counter()
            self.predict(jobs)
            took.append(time.perf_counter() - began)
        return statistics.median(took)
