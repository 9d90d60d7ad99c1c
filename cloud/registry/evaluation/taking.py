"""One variant's figures while they are taken. What breaks its engine ends the taking, not more."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cloud.registry.documents import Metrics
from cloud.registry.evaluation.figures import Latency, Measured, Quality, Robustness
from cloud.registry.evaluation.metric_names import METRICS
from cloud.registry.evaluation.subject import EngineAbsent, ModelBroke, Subject
from shared.bundle.manifest import Manifest, Variant
from shared.bundle.reader import Bundle

Floats = NDArray[np.float32]


@dataclass(slots=True)
class Taking:
    """`subject` runs it; None once it broke or before it was opened."""

    bundle: Bundle
    variant: Variant
    subject: Subject | None = None
    broke: str = ""
    absent: str = ""  # this machine cannot run it; not the model's fault
    metrics: Metrics = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    quality: Quality | None = None
    latency: Latency | None = None
    robustness: Robustness = field(default_factory=Robustness)
    clean: Floats | None = None  # [N, classes] of the whole data
    golden: Floats | None = None
    boundary: Floats | None = None

    @property
    def manifest(self) -> Manifest:
        return self.bundle.manifest

    @property
    def runs(self) -> bool:
        return self.subject is not None and not self.broke and not self.absent

    async def attempt(self, step: Callable[["Taking", Subject], Awaitable[None]]) -> None:
        """Take `step` unless it has broken before."""
        if not self.runs or self.subject is None:
            return
        try:
            await step(self, self.subject)
        except ModelBroke as error:
            self.broke = str(error)
        except EngineAbsent as error:
            self.absent = str(error)

    def measured(self, hardware: str) -> Measured:
        """Every metric is there, or why it is not."""
        why = self.broke or self.absent or "it was not measured"
        missing = {
            name: self.missing.get(name, why) for name in METRICS if name not in self.metrics
        }
        return Measured(
            model=self.manifest.name,
            version=self.manifest.version,
            variant=self.variant.key,
            hardware=hardware,
            metrics=self.metrics,
            missing=missing,
            notes=tuple(self.notes),
            broke=self.broke or self.absent,
            quality=self.quality,
            latency=self.latency,
            robustness=self.robustness,
        )
