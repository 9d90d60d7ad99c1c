"""What a new model shows on data that it was not fitted to, beside its parent. Pure but for running it."""

import numpy as np
from numpy.typing import NDArray

from cloud.training import calibrate, evaluate
from cloud.training import figure_names as names
from cloud.training.fashion_mnist import Split
from cloud.training.figure_names import LabelledBy
from cloud.training.recipes.field import Field
from cloud.training.recipes.ground import Answering, opened
from shared.bundle.manifest import Calibration
from shared.confidence import softmax

Floats = NDArray[np.float32]
Figures = dict[str, float]


def of_model(
    logits: Floats, clean: Split, calibration: Calibration, parent: Answering | None
) -> Figures:
    """On the base data's calibration split; `logits` [N, classes] are the new model's for it."""
    says = softmax(logits, calibration.temperature)
    found = {
        names.CLEAN: evaluate.accuracy(logits, clean.labels),
        names.CALIBRATION_ERROR: calibrate.expected_calibration_error(says, clean.labels),
        names.TEMPERATURE: calibration.temperature,
    }
    if (threshold := default_threshold(calibration)) is not None:
        found[names.CLEAN_ESCALATED] = float((says.max(1) < threshold).mean())
    if parent is not None:
        found[names.CLEAN_PARENT] = evaluate.accuracy(parent.logits(clean.images), clean.labels)
    return found


def of_holdout(
    logits: Floats, holdout: Field, calibration: Calibration, parent: Answering | None
) -> Figures:
    """By who labelled it, each picture once; `logits` [N, classes] are the new model's for it."""
    found = Figures()
    if not len(holdout):
        return found | {names.holdout_rows("all"): 0.0}
    right = logits.argmax(1) == holdout.labels
    before = None
    if parent is not None:
        before = parent.logits(holdout.images).argmax(1) == holdout.labels
    once = holdout.once
    kinds: dict[LabelledBy, NDArray[np.bool_]] = {
        "person": holdout.by_person & once,
        "cloud": ~holdout.by_person & once,
        "all": once,
    }
    for by, which in kinds.items():
        found[names.holdout_rows(by)] = float(which.sum())
        if not which.any():
            continue
        found[names.holdout_accuracy(by)] = float(right[which].mean())
        if before is not None:
            found[names.holdout_parent(by)] = float(before[which].mean())
            found[names.holdout_gained(by)] = float((right & ~before)[which].sum())
            found[names.holdout_spoilt(by)] = float((before & ~right)[which].sum())
    if (threshold := default_threshold(calibration)) is not None:
        kept_back = softmax(logits, calibration.temperature).max(1) < threshold
        found[names.FIELD_ESCALATED] = float(np.average(kept_back, weights=holdout.weights))
    return found


def of_graphs(served: bytes, fp32: bytes, parameters: int, clean: Split) -> Figures:
    session = opened(fp32, "fp32 graph")
    return {
        names.CLEAN_FP32: evaluate.accuracy(evaluate.logits(session, clean.images), clean.labels),
        names.PARAMETERS: float(parameters),
        names.GRAPH_BYTES: float(len(served)),
    }


def of_rows(base: int, feedback: int) -> Figures:
    return {names.TRAIN_ROWS: float(base + feedback), names.FEEDBACK_ROWS: float(feedback)}


def default_threshold(calibration: Calibration) -> float | None:
    """`confidence_min`; None for a model that never escalates."""
    for threshold in calibration.thresholds:
        if threshold.name == calibration.default_threshold:
            return threshold.confidence_min
    return None
