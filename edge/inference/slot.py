"""The place that holds the active version of a model, and runs it where that hurts nobody.

A model that takes under a millisecond here runs on the event loop: a hop to a thread and back
costs more than it saves. A slower one runs in one worker thread.
"""

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from shared.bundle.manifest import Manifest
from shared.bundle.reader import Bundle, open_bundle
from shared.engines.apart import choose_apart
from shared.engines.engine import Session
from shared.errors import Malformed, Overloaded

log = logging.getLogger(__name__)

INLINE_MS_MAX = 1.0
_WAITING_MAX = 256  # calls that may wait for the worker thread

Logits = list[float]


class Slot:
    def __init__(self, bundle: Bundle, session: Session, key: str, latency_ms: float) -> None:
        """`latency_ms` is the measured time of a batch of one on this machine."""
        self.bundle, self.key, self.latency_ms = bundle, key, latency_ms
        self._run, self._close = session.run, session.close
        self._worker: ThreadPoolExecutor | None = None
        self._waiting = 0
        if latency_ms >= INLINE_MS_MAX:
            self._worker = ThreadPoolExecutor(1, thread_name_prefix="model")

    @property
    def manifest(self) -> Manifest:
        return self.bundle.manifest

    @property
    def inline(self) -> bool:
        """Whether `logits` may be called on the event loop."""
        return self._worker is None

    def logits(self, tensor: NDArray[np.generic]) -> Logits:
        """Run one sample; where `inline` is false, for the worker thread only.

        Raises `Malformed` for a tensor that is not the model's input, without batch axis.
        """
        return cast("Logits", self._run(tensor[None])[0].tolist())

    async def logits_of(self, tensors: Sequence[NDArray[np.generic]]) -> list[Logits]:
        """Run samples in the worker thread. Raises `Malformed`, `Overloaded` when too many wait."""
        assert self._worker is not None
        if self._waiting >= _WAITING_MAX:
            raise Overloaded(f"{self._waiting} requests wait for the model; send fewer at a time")
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._worker, self._many, tensors)
        finally:
            self._waiting -= 1

    async def retire(self) -> None:
        """Close it once the samples in its worker thread are answered; for a slot that was swapped."""
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """Waits for the samples in its worker thread."""
        if self._worker is not None:
            self._worker.shutdown()
        self._close()

    def _many(self, tensors: Sequence[NDArray[np.generic]]) -> list[Logits]:
        return [self.logits(tensor) for tensor in tensors]


def open_slot(path: Path, engine: str, cache_dir: Path) -> Slot:
    """Verify a bundle, pick the variant that is fastest here, and open it; takes seconds.

    Raises `Malformed`, `NotTrusted`, `Unknown` for an engine it has no variant for, or
    `Unavailable` when none can run here.
    """
    bundle = open_bundle(path)
    if bundle.manifest.task != "classify" or bundle.manifest.backbone is not None:
        raise Malformed(f"{path}: a part of a cut model; a device runs whole ones")
    wanted = None if engine == "auto" else engine
    # In a child process: the runtimes that lose would otherwise stay in this one's memory.
    choice = choose_apart(bundle, wanted=wanted, cache_dir=cache_dir, batch_max=1)
    latency_ms = next(v.latency_ms for v in choice.verdicts if v.chosen) or 0.0
    log.info(
        "model_opened",
        extra={
            "model": bundle.manifest.name,
            "version": bundle.manifest.version,
            "variant": choice.variant.key,
            "why": choice.reason,
            "others": {v.variant.key: v.reason for v in choice.verdicts if not v.chosen},
        },
    )
    return Slot(bundle, choice.session, choice.variant.key, latency_ms)
