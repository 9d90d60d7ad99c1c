"""The feature check: newest samples through training's reader and through serving's, on schedule."""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Callable
from typing import Annotated, Protocol
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloud.feedback.documents import FeedbackSample, SampleQuery
from cloud.learning.documents import FeatureCheck
from cloud.learning.feature_check import Checked, Floats, check
from cloud.learning.metrics import LearningMetrics
from cloud.learning.models import Models
from cloud.learning.pages import SamplePages, all_samples
from cloud.learning.serving import Served
from cloud.learning.store.loops import LoopStore
from shared.bundle.reader import Bundle
from shared.confidence import softmax
from shared.config import Count, Positive, Section
from shared.engines.engine import OpenOptions
from shared.engines.onnxruntime_engine import OnnxRuntimeEngine
from shared.errors import Conflict, HybridgeError, Unknown
from shared.ids import SampleId
from shared.wire.envelope import Payload
from shared.wire.pixels import Decoder

log = logging.getLogger(__name__)


class FeatureChecks(Section):
    """How often training and serving are compared, and on what."""

    every_s: Positive = 6 * 3600.0
    """Between two checks of a model. Default: four a day, each of a second."""
    again_s: Positive = 300.0
    """After one that could not be made: somebody was away, or there was no sample."""
    samples: Annotated[Count, Field(le=256)] = 32
    """The newest of each model; one question to the worker."""
    looked_at: Annotated[Count, Field(le=100_000)] = 2000
    """The newest samples among which those of a model are looked for."""
    difference_max: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Of a probability, between the fp32 graph and what is served. Default: int8 differs by 0.05."""


class NothingYet(Unknown):
    """No sample that the model answered is here."""


class Samples(SamplePages, Protocol):
    """The feedback store."""

    def tensor(self, device: str, sample: SampleId) -> NDArray[np.uint8]:
        """As training reads it."""
        ...


class Wire(Protocol):
    """What came."""

    def payload(self, device: str, sample: str) -> Payload: ...


class FeatureChecking:
    def __init__(
        self,
        store: LoopStore,
        feedback: Samples,
        wire: Wire,
        models: Models,
        served: Served | None,
        settings: FeatureChecks,
        metrics: LearningMetrics,
        now: Callable[[], float],
    ) -> None:
        self._store, self._feedback, self._models, self._wire = store, feedback, models, wire
        self._served, self._settings, self._metrics, self._now = served, settings, metrics, now
        self._one = asyncio.Lock()  # each holds tensors and a graph
        self._unmade = set[str]()

    async def checks(self) -> list[FeatureCheck]:
        """The newest of each model."""
        return await asyncio.to_thread(self._store.checks)

    async def check(self, model: str) -> FeatureCheck:
        """Of the cloud model's newest version that answered samples, now.

        Raises `NothingYet` where no sample of it is here, `Conflict` where its samples cannot be read. What
        the check before found holds on then, and the metrics say that it is old.
        """
        try:
            found = await self._made(model)
        except HybridgeError as error:
            if isinstance(error, NothingYet):
                self._unmade.discard(model)
            else:
                self._unmade.add(model)
            with contextlib.suppress(HybridgeError):  # what was wrong first is what is said
                await self._count()
            raise
        self._unmade.discard(model)
        await self._count()
        if not found.agrees:
            log.error("features_differ", extra={
                "model": found.model, "version": found.version, "words": found.words,
            })  # fmt: skip
        return found

    async def failed(self) -> int:
        """Teachers of loops whose newest check found a difference."""
        return self._failed(await self._teachers(), await self.checks())

    async def _made(self, model: str) -> FeatureCheck:
        async with self._one:
            samples = await asyncio.to_thread(self._newest, model)
            version = samples[0].cloud_version
            bundle = await self._models.bundle(model, version)
            training, serving = await asyncio.to_thread(self._decoded, samples, bundle)
            batch = np.stack(training)
            here = await asyncio.to_thread(_run, bundle, batch)
            served = None
            if self._served is not None:
                served = await self._served.probabilities(model, version, batch)
            seen = Checked(
                training, serving, here, served,
                np.array([one.cloud_label for one in samples], np.int64),
                np.array([one.cloud_confidence for one in samples], np.float32),
            )  # fmt: skip
            found = check(model, version, self._now(), seen, self._settings.difference_max)
            await asyncio.to_thread(self._store.put_check, found)
        return found

    async def run(self) -> None:
        """Until cancelled: the cloud model of each loop, every `every_s`, or again after `again_s` where
        it could not be checked.
        """
        due: dict[str, float] = {}
        clock, settings = asyncio.get_running_loop(), self._settings
        while True:
            try:
                teachers = await self._count()  # also what a process before this one found
            except HybridgeError as error:
                log.warning("feature_check_blind", extra={"why": str(error)[:300]})
                teachers = set()
            for model in sorted(teachers):
                if clock.time() >= due.get(model, 0.0):
                    is_checked = await self._try(model)
                    due[model] = clock.time() + (settings.every_s if is_checked else 0.0)
            await asyncio.sleep(min(settings.again_s, settings.every_s))

    async def _try(self, model: str) -> bool:
        """Whether it was checked."""
        try:
            await self.check(model)
        except NothingYet:
            return False
        except HybridgeError as error:
            log.warning("feature_check_failed", extra={"model": model, "why": str(error)[:500]})
            return False
        return True

    def _newest(self, model: str) -> list[FeedbackSample]:
        settings = self._settings
        found = (
            one for one in all_samples(self._feedback, SampleQuery(), 500, settings.looked_at)
            if one.cloud_model == model
        )  # fmt: skip
        newest = list(itertools.islice(found, settings.samples))
        if not newest:
            raise NothingYet(
                f"no sample that {model} answered is among the newest {settings.looked_at}"
            )
        return [one for one in newest if one.cloud_version == newest[0].cloud_version]

    def _decoded(
        self, samples: list[FeedbackSample], bundle: Bundle
    ) -> tuple[list[NDArray[np.generic]], list[NDArray[np.generic]]]:
        """Raises `Conflict` where they are not of one shape, as the graph takes them."""
        decoder = Decoder((bundle.dictionary,) if bundle.dictionary else ())
        training: list[NDArray[np.generic]] = [
            self._feedback.tensor(one.device, SampleId(UUID(one.id))) for one in samples
        ]
        serving: list[NDArray[np.generic]] = [
            decoder.decode(self._wire.payload(one.device, one.id)) for one in samples
        ]
        wanted = bundle.manifest.inputs[0]
        for one in training:
            if one.shape != wanted.shape or one.dtype != np.dtype(wanted.dtype):
                raise Conflict(
                    f"{bundle.manifest.name}: a sample is {one.dtype}{list(one.shape)}, its graph takes "
                    f"{wanted.dtype}{list(wanted.shape)}"
                )
        return training, serving

    async def _count(self) -> set[str]:
        """Of the loops that there are: one that was removed, or has another teacher now, would be
        counted for ever. Their teachers.
        """
        teachers = await self._teachers()
        self._unmade &= teachers
        self._metrics.checks_unmade.set(len(self._unmade))
        self._metrics.checks_failed.set(self._failed(teachers, await self.checks()))
        return teachers

    async def _teachers(self) -> set[str]:
        return {one.settings.teacher for one in await asyncio.to_thread(self._store.loops)}

    @staticmethod
    def _failed(teachers: set[str], checks: list[FeatureCheck]) -> int:
        return sum(one.model in teachers and not one.agrees for one in checks)


def _run(bundle: Bundle, batch: NDArray[np.generic]) -> Floats:
    """Probabilities of the fp32 graph. Raises `Conflict` where the bundle has none."""
    manifest = bundle.manifest
    variant = next((one for one in manifest.variants if one.key == "onnxruntime/fp32"), None)
    if variant is None:
        raise Conflict(f"{manifest.name} {manifest.version} has no variant onnxruntime/fp32")
    session = OnnxRuntimeEngine().open(
        bundle.read(variant.file), OpenOptions(where=f"{manifest.name} {manifest.version}")
    )
    try:
        return softmax(session.run(batch), manifest.calibration.temperature)
    finally:
        session.close()
