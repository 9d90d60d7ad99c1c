"""The final answer of a sample, from the edge's logits and the cloud's probabilities. Pure."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from edge.answers import Answer
from edge.journal.rows import Pending
from shared.bundle.manifest import Calibration
from shared.confidence import fuse, softmax
from shared.errors import Malformed
from shared.wire.envelope import CloudAnswer


def check_labels(cloud: CloudAnswer, labels: Sequence[str]) -> None:
    """Raises `Malformed` for an answer about other labels than the edge model's."""
    if len(cloud.probabilities) != len(labels):
        raise Malformed(
            f"answer from {cloud.model} {cloud.model_version}: {len(cloud.probabilities)} "
            f"probabilities for {len(labels)} labels; serve the cloud bundle of this model"
        )


def final_answer(
    pending: Pending,
    cloud: CloudAnswer,
    calibration: Calibration | None,
    *,
    fusion: bool,
    latency_ms: float,
    uplink_bytes: int,
) -> Answer:
    """The logarithmic pool of both with the bundle's weight, or the cloud's word alone.

    Alone, too, where the edge's logits are no numbers or those of a model with other labels, or
    where nobody knows the calibration of the version that they are of.
    """
    weight = calibration.fusion_cloud_weight if fusion and calibration is not None else 1.0
    probabilities = cloud.probabilities
    logits = np.array(pending.logits, np.float32)
    if logits.shape != probabilities.shape or not np.isfinite(logits).all():
        weight = 1.0
    if weight < 1 and calibration is not None:
        edge = softmax(logits, calibration.temperature)
        probabilities = fuse(edge, cloud.probabilities, weight)
    label = int(probabilities.argmax())
    return replace(
        pending.answer,
        label=label,
        confidence=float(probabilities[label]),
        source="fused" if weight < 1 else "cloud",
        model_version=cloud.model_version,
        final=True,
        latency_ms=latency_ms,
        uplink_bytes=uplink_bytes,
    )
