"""A bundle opened for a batch: an engine session of its own, checked, warm and measured."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from cloud.batch.answer_lines import Answered
from cloud.batch.reading import Pixels
from cloud.serving.latency_curve import LatencyCurve
from cloud.serving.padding import powers_of_two
from shared.bundle.reader import Bundle
from shared.confidence import softmax
from shared.engines.known import known_engines
from shared.engines.ranking import choose
from shared.errors import Malformed

ROWS_MAX = 64  # in a batch; throughput is flat from 16 on, and a stop waits for one batch
_RUNS = 5  # of each size; the shortest counts, because whoever gives way is often interrupted
_MEASURE_S_MAX = 1.0  # for the whole curve


class OfflineModel:
    """`answer` from one event loop. Opening takes seconds, so it belongs in a thread."""

    def __init__(self, bundle: Bundle, *, wanted: str | None, threads: int, rows_max: int) -> None:
        """`wanted` is an engine or a variant, None the fastest; `rows_max` bounds a batch.

        Raises `Malformed` for a model that images cannot feed, and what `choose` raises.
        """
        manifest = bundle.manifest
        if len(manifest.inputs) != 1 or manifest.inputs[0].dtype != "uint8":
            stated = ", ".join(f"{t.dtype} '{t.name}'" for t in manifest.inputs)
            raise Malformed(f"{bundle.where}: inputs are {stated}; images are one uint8")
        choice = choose(
            bundle, known_engines(), wanted=wanted, threads=threads, batch_max=rows_max
        )  # fmt: skip
        self.shape = manifest.inputs[0].shape
        self.labels = manifest.labels
        self.variant, self.why = choice.variant.key, choice.reason
        self._version, self._temperature = manifest.version, manifest.calibration.temperature
        self._session = choice.session
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="model")
        self.curve = self._measure(rows_max)

    async def answer(self, pixels: Pixels) -> Answered:
        """Of uint8 [n, *shape]."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self.run, pixels)

    def run(self, pixels: Pixels) -> Answered:
        """Blocks; not from two threads at once."""
        return Answered(softmax(self._session.run(pixels), self._temperature), self._version)

    def close(self) -> None:
        self._thread.shutdown()
        self._session.close()

    def _measure(self, rows_max: int) -> LatencyCurve:
        sizes = powers_of_two(rows_max)
        share_s = _MEASURE_S_MAX / len(sizes)
        measured: dict[int, float] = {}
        for size in sizes:
            pixels = np.zeros((size, *self.shape), np.uint8)
            took: list[float] = []
            while len(took) < _RUNS and sum(took) < share_s:
                began = time.perf_counter()
                self.run(pixels)
                took.append(time.perf_counter() - began)
            measured[size] = min(took)
        return LatencyCurve(measured)
