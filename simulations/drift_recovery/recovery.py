"""Lost and regained accuracy of the edge's model under one shift, before and after one job."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from cloud.feedback.data_file import write_rows
from cloud.training import evaluate
from cloud.training import figure_names as names
from cloud.training.fashion_mnist import Dataset, Split
from cloud.training.recipes.ground import Answering, answering
from cloud.training.shifts import shift
from shared.bundle.reader import open_bundle
from simulations.drift_recovery import data_set
from simulations.drift_recovery.job import fine_tuned
from simulations.drift_recovery.stream import sent
from simulations.drift_recovery.trials import Trial

STREAM: Final = 3_000
"""Of the test images the first so many are seen by devices; the others are measured on."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """Accuracies on images that no device saw, in 0..1."""

    kind: str
    trial: str
    seed: int
    sent: int
    teacher: float
    """Of the labels that were learnt."""
    clean_before: float
    clean_after: float
    calibration_loss: float
    """Of clean accuracy, on the calibration split: what the loop's gate goes by."""
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


def recover(
    data: Dataset,
    kind: str,
    trial: Trial,
    seed: int,
    models: Path,
    folder: Path,
    seen: int = STREAM,
) -> Recovery:
    """`folder` is left with the job's files; `seen` images at most `STREAM`. A minute and a half on one core."""
    edge, cloud = (answering(open_bundle(models / f"fashion-{side}")) for side in ("edge", "cloud"))
    stream = shift(data.test.images[:seen], kind, seed)
    held = Split(data.test.images[STREAM:], data.test.labels[STREAM:])
    shifted = Split(shift(held.images, kind, seed + 100), held.labels)
    what = sent(edge, stream, seed)
    if not trial.audits:
        what = what.escalated()
    rows = data_set.labelled(stream, what, cloud, seed)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "data.npz").write_bytes(write_rows(rows))
    trained = fine_tuned(trial.recipe(seed), folder / "data.npz", models, folder)
    new = answering(open_bundle(trained.bundle))
    figures = trained.made.figures
    before, escalated_before = _measured(edge, shifted)
    after, escalated_after = _measured(new, shifted)
    return Recovery(
        kind=kind, trial=trial.name, seed=seed, sent=len(rows),
        teacher=float((rows.labels == data.test.labels[what.chosen]).mean()),
        clean_before=_measured(edge, held)[0], clean_after=_measured(new, held)[0],
        calibration_loss=figures[names.CLEAN_PARENT] - figures[names.CLEAN],
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
