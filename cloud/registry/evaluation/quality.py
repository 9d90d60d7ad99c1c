"""How good answers are, by scikit-learn. Logits [N, classes] float32 against labels [N] int64.

Macro figures are means over the classes that occur in the labels. Expected calibration error: Guo
et al. 2017 (arXiv:1706.04599), 15 equal bins of the winner's calibrated confidence.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cloud.registry.documents import Metrics
from cloud.registry.evaluation.figures import Bin, ClassFigures, Quality, SliceFigures
from shared.confidence import softmax

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]
NAMES = ("accuracy", "precision", "recall", "f1", "auc", "ece", "worst_class", "worst_slice")
BINS = 15
_CONFUSION_CLASSES_MAX = 200


@dataclass(frozen=True, slots=True)
class QualityResult:
    quality: Quality | None
    metrics: Metrics
    missing: dict[str, str]
    notes: tuple[str, ...]


def measure_quality(
    logits: Floats,
    labels: Labels,
    slices: tuple[str, ...],
    *,
    names: tuple[str, ...],
    temperature: float,
    group_rows_min: int,
) -> QualityResult:
    """`names` of the classes, in the order of the logits; `slices` is () or one name a row."""
    with np.errstate(over="ignore", invalid="ignore"):
        probabilities = softmax(logits, temperature)
    if bad := int((~np.isfinite(logits) | ~np.isfinite(probabilities)).any(axis=1).sum()):
        why = f"{bad} of {len(logits)} answers hold NaN or infinity"
        return QualityResult(None, {}, dict.fromkeys(NAMES, why), (why,))
    from sklearn.metrics import confusion_matrix, precision_recall_fscore_support  # noqa: PLC0415

    winners = logits.argmax(axis=1)
    right = winners == labels
    present = np.unique(labels)
    metrics: Metrics = {"accuracy": float(right.mean())}
    missing: dict[str, str] = {}
    notes: list[str] = []
    means = precision_recall_fscore_support(
        labels, winners, labels=present, average="macro", zero_division=0
    )
    metrics |= {"precision": float(means[0]), "recall": float(means[1]), "f1": float(means[2])}
    if absent := len(names) - len(present):
        notes.append(f"{absent} of {len(names)} classes have no row; they count in no macro figure")
    bins = reliability(probabilities.max(axis=1), right)
    metrics["ece"] = calibration_error(bins)
    classes = _classes(probabilities, winners, labels, names, group_rows_min)
    areas = [one.auc for one in classes if one.auc is not None]
    if areas:
        metrics["auc"] = math.fsum(areas) / len(areas)
    else:
        missing["auc"] = "no class has rows both of it and of others"
    of_slices = _slices(right, slices, group_rows_min)
    _worst("worst_class", [(c.recall, c.counts) for c in classes if c.rows], "class",
           group_rows_min, metrics, missing, notes)  # fmt: skip
    if slices:
        _worst("worst_slice", [(s.accuracy, s.counts) for s in of_slices], "slice",
               group_rows_min, metrics, missing, notes)  # fmt: skip
    else:
        missing["worst_slice"] = "the data set has no slices"
    confusion: tuple[tuple[int, ...], ...] = ()
    if len(names) <= _CONFUSION_CLASSES_MAX:
        counted = confusion_matrix(labels, winners, labels=np.arange(len(names)))
        confusion = tuple(tuple(int(n) for n in row) for row in counted)
    quality = Quality(
        rows=len(labels), classes=classes, slices=of_slices, bins=bins, confusion=confusion
    )
    return QualityResult(quality, metrics, missing, tuple(notes))


def reliability(confidence: Floats, right: NDArray[np.bool_]) -> tuple[Bin, ...]:
    """The bins that hold rows are filled; the others have 0 rows and their middle."""
    which = np.minimum((confidence * BINS).astype(int), BINS - 1)
    bins = []
    for k in range(BINS):
        inside = which == k
        rows = int(inside.sum())
        bins.append(
            Bin(
                rows=rows,
                confidence=float(confidence[inside].mean()) if rows else (k + 0.5) / BINS,
                accuracy=float(right[inside].mean()) if rows else 0.0,
            )
        )
    return tuple(bins)


def calibration_error(bins: tuple[Bin, ...]) -> float:
    """Mean distance of confidence and accuracy, each bin by its share of the rows."""
    rows = sum(one.rows for one in bins)
    return math.fsum(one.rows * abs(one.accuracy - one.confidence) for one in bins) / max(1, rows)


def _classes(
    probabilities: Floats,
    winners: NDArray[np.intp],
    labels: Labels,
    names: tuple[str, ...],
    group_rows_min: int,
) -> tuple[ClassFigures, ...]:
    from sklearn.metrics import precision_recall_fscore_support, roc_auc_score  # noqa: PLC0415

    precision, recall, f1, rows = precision_recall_fscore_support(
        labels, winners, labels=np.arange(len(names)), zero_division=0
    )
    answered = np.bincount(winners, minlength=len(names))
    found = []
    for k, name in enumerate(names):
        has_rows = bool(rows[k])
        both = 0 < rows[k] < len(labels)
        found.append(
            ClassFigures(
                label=name,
                rows=int(rows[k]),
                precision=float(precision[k]) if answered[k] else None,
                recall=float(recall[k]) if has_rows else None,
                f1=float(f1[k]) if has_rows else None,
                auc=float(roc_auc_score(labels == k, probabilities[:, k])) if both else None,
                counts=bool(rows[k] >= group_rows_min),
            )
        )
    return tuple(found)


def _slices(
    right: NDArray[np.bool_], slices: tuple[str, ...], group_rows_min: int
) -> tuple[SliceFigures, ...]:
    if not slices:
        return ()
    names, which, counts = np.unique(np.array(slices), return_inverse=True, return_counts=True)
    hits = np.bincount(which, weights=right, minlength=len(names))
    return tuple(
        SliceFigures(
            name=str(name), rows=int(n), accuracy=float(hit / n), counts=bool(n >= group_rows_min)
        )
        for name, n, hit in zip(names, counts, hits, strict=True)
    )


def _worst(
    metric: str,
    groups: list[tuple[float | None, bool]],
    kind: str,
    group_rows_min: int,
    metrics: Metrics,
    missing: dict[str, str],
    notes: list[str],
) -> None:
    counting = [figure for figure, counts in groups if counts and figure is not None]
    if few := len(groups) - len(counting):
        notes.append(
            f"{metric}: {few} of {len(groups)} have fewer than {group_rows_min} rows; they are "
            "listed and do not count"
        )
    if counting:
        metrics[metric] = min(counting)
    else:
        missing[metric] = f"no {kind} has {group_rows_min} rows"
