"""A cloud model that is loaded, warm and measured; `choose` held it to its golden samples."""

import statistics
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cloud.serving.latency_curve import LatencyCurve
from shared.bundle.manifest import Manifest
from shared.bundle.reader import Bundle
from shared.confidence import softmax
from shared.engines.ranking import Choice
from shared.errors import Malformed, Unknown
from shared.wire.envelope import Payload
from shared.wire.pixels import Decoder

_RUNS = 7  # of each batch size; their median resists a hiccup
_MEASURE_S_MAX = 2.0  # for the whole curve: a slow model is measured less often

Pixels = NDArray[np.uint8]
Floats = NDArray[np.float32]


class UnknownDictionary(Unknown):
    """A payload was compressed with a dictionary that this model's bundle does not hold."""


class LoadedModel:
    """Not shared between threads: one batcher runs it, one event loop decodes for it."""

    def __init__(self, bundle: Bundle, choice: Choice, *, size_max: int) -> None:
        """Raises `Malformed` for a model that escalations cannot feed."""
        manifest = bundle.manifest
        if len(manifest.inputs) != 1 or manifest.inputs[0].dtype != "uint8":
            stated = ", ".join(f"{t.dtype} '{t.name}'" for t in manifest.inputs)
            raise Malformed(f"{bundle.where}: inputs are {stated}; escalations carry one uint8")
        self.manifest: Manifest = manifest
        self.variant, self.why = choice.variant.key, choice.reason
        self._session = choice.session
        self._shape = manifest.inputs[0].shape
        self._temperature = manifest.calibration.temperature
        self._decoder = Decoder((bundle.dictionary,) if bundle.dictionary else ())
        self._batch = np.zeros((size_max, *self._shape), np.uint8)
        self.curve = self._measure(size_max)

    @property
    def name(self) -> str:
        return self.manifest.name

    @property
    def version(self) -> str:
        return self.manifest.version

    def decode(self, payload: Payload) -> Pixels:
        """The sample, [input shape]; raises `Malformed`, `TooLarge` or `UnknownDictionary`."""
        if payload.shape != self._shape:  # before a byte is decompressed
            raise Malformed(
                f"payload shape {list(payload.shape)}; {self.name} {self.version} takes uint8 "
                f"{list(self._shape)}"
            )
        try:
            return self._decoder.decode(payload)
        except Unknown as error:
            raise UnknownDictionary(str(error)) from error

    def predict(self, samples: Sequence[Pixels]) -> list[Floats]:
        """Calibrated probabilities [classes] of each sample [input shape]; one copy a sample."""
        count = len(samples)
        for place, sample in zip(self._batch, samples, strict=False):
            place[...] = sample
        logits = self._session.run(self._batch[:count])
        return list(softmax(logits, self._temperature))

    def close(self) -> None:
        self._session.close()

    def _measure(self, size_max: int) -> LatencyCurve:
        """Also the warm-up for each batch size: engines allocate and specialise at first runs."""
        sizes = [1 << k for k in range(size_max.bit_length()) if 1 << k < size_max] + [size_max]
        share_s = _MEASURE_S_MAX / len(sizes)
        measured: dict[int, float] = {}
        for size in sizes:
            samples = [self._batch[0].copy()] * size
            took: list[float] = []
            started = time.perf_counter()
            while len(took) < _RUNS and (not took or time.perf_counter() - started < share_s):
                began = time.perf_counter()
                self.predict(samples)
                took.append(time.perf_counter() - began)
            measured[size] = statistics.median(took)
        return LatencyCurve(measured)
