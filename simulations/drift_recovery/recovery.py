"""Lost and regained accuracy of the edge's model under one shift, before and after one job."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from cloud.feedback.data_file import write_rows
from cloud.training import evaluate
from cloud.training.documents import FineTune
from cloud.training.fashion_mnist import Dataset, Split
from cloud.training.recipes.ground import Answering, answering
from cloud.training.shifts import shift
from shared.bundle.reader import open_bundle
from simulations.drift_recovery import data_set
from simulations.drift_recovery.job import CLOUD, EDGE, fine_tuned
from simulations.drift_recovery.stream import sent

STREAM: Final = 5_000
"""Of the test images the first so many are seen by devices; the others are measured on."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """Accuracies on images that no device saw, in 0..1."""

    kind: str
    seed: int
    sent: int
    teacher: float
    """Of the labels that were learnt."""
    clean_before: float
    clean_after: float
    before: float
    after: float
    escalated_before: float
    escalated_after: float
    cpu_s: float

    @property
    def regained(self) -> float:
        """Share of what the shift cost."""
        return (self.after - self.before) / (self.clean_before - self.before)

    @property
    def clean_loss(self) -> float:
        return self.clean_before - self.clean_after


def default_recipe(seed: int) -> FineTune:
    """As it is by itself, but for the seed."""
    plain = FineTune(version="1.0.1", student=EDGE, teacher=CLOUD, base="fashion-mnist")
    return plain.model_copy(update={"fitting": plain.fitting.model_copy(update={"seed": seed})})


def recover(data: Dataset, kind: str, recipe: FineTune, models: Path, folder: Path) -> Recovery:
    """`folder` is left with the job's files. Takes about a minute on one core."""
    seed = recipe.fitting.seed
    edge, cloud = (answering(open_bundle(models / f"fashion-{side}")) for side in ("edge", "cloud"))
    stream = shift(data.test.images[:STREAM], kind, seed)
    held = Split(data.test.images[STREAM:], data.test.labels[STREAM:])
    shifted = Split(shift(held.images, kind, seed + 100), held.labels)
    what = sent(edge, stream, seed)
    rows = data_set.labelled(stream, what, cloud, seed)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "data.npz").write_bytes(write_rows(rows))
    trained = fine_tuned(recipe, folder / "data.npz", models, folder)
    new = answering(open_bundle(trained.bundle))
    before, escalated_before = _measured(edge, shifted)
    after, escalated_after = _measured(new, shifted)
    return Recovery(
        kind=kind, seed=seed, sent=len(rows),
        teacher=float((rows.labels == data.test.labels[what.chosen]).mean()),
        clean_before=_measured(edge, held)[0], clean_after=_measured(new, held)[0],
        before=before, after=after, escalated_before=escalated_before,
        escalated_after=escalated_after, cpu_s=trained.cpu_s,
    )  # fmt: skip


def _measured(model: Answering, split: Split) -> tuple[float, float]:
    """Accuracy, and the share that escalates by confidence."""
    logits = model.logits(split.images)
    calibration = model.bundle.manifest.calibration
    (minimum,) = (
        threshold.confidence_min
        for threshold in calibration.thresholds
        if threshold.name == calibration.default_threshold
    )
    says = model.probabilities(split.images)
    return evaluate.accuracy(logits, split.labels), float(np.mean(says.max(1) < minimum))
