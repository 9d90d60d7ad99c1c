"""What the calibration split decides: temperature, thresholds with a guarantee, fusion weight.

Sources: temperature scaling, Guo et al. 2017 (arXiv:1706.04599); learn then test, Angelopoulos
et al. 2021 (arXiv:2110.01052), with exact binomial p-values (Clopper and Pearson 1934).
"""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.stats import binom

from shared.bundle.manifest import Guarantee, Threshold
from shared.confidence import fuse, softmax

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]
GRID = 1_000  # candidate thresholds, from "escalate all" downwards
ESCALATE_ALL = 1.01


def negative_log_likelihood(probabilities: Floats, labels: Labels) -> float:
    picked = probabilities[np.arange(len(labels)), labels]
    return float(-np.log(np.clip(picked, 1e-12, 1)).mean())


def temperature(logits: Floats, labels: Labels) -> float:
    """The temperature in 0.2..8 with the least negative log likelihood."""

    def loss(t: float) -> float:
        return negative_log_likelihood(softmax(logits, t), labels)

    return float(minimize_scalar(loss, bounds=(0.2, 8), method="bounded").x)


def fusion_weight(edge: Floats, cloud: Floats, labels: Labels) -> float:
    """The cloud's weight in `shared.confidence.fuse` with the least negative log likelihood.

    `edge` and `cloud` are calibrated probabilities [N, classes] of the samples that escalate.
    """

    def loss(weight: float) -> float:
        return negative_log_likelihood(fuse(edge, cloud, weight), labels)

    return float(minimize_scalar(loss, bounds=(0, 1), method="bounded").x)


def expected_calibration_error(probabilities: Floats, labels: Labels, bins: int = 15) -> float:
    """ECE over equal-width bins of the winner's probability (Guo et al. 2017)."""
    confidence, right = probabilities.max(1), probabilities.argmax(1) == labels
    which = np.minimum((confidence * bins).astype(int), bins - 1)
    gaps = [
        (which == k).mean() * abs(right[which == k].mean() - confidence[which == k].mean())
        for k in range(bins)
        if (which == k).any()
    ]
    return float(sum(gaps))


def certified_threshold(
    confidence: Floats, lost: NDArray[np.bool_], epsilon: float, delta: float
) -> float:
    """The lowest confidence at which a sample may stay on the edge.

    `lost` marks samples that are worse off when kept. With probability 1 - delta over the
    calibration samples, P(kept and lost) <= epsilon at the threshold returned. Fixed sequence:
    candidates are tested from "escalate all" down, each with an exact binomial test at level
    delta, and the first that fails ends the sequence.
    """
    candidates = np.quantile(confidence, np.linspace(1, 0, GRID + 1))
    certified = ESCALATE_ALL
    for candidate in candidates:
        losses = int((lost & (confidence >= candidate)).sum())
        if binom.cdf(losses, len(confidence), epsilon) > delta:
            break
        certified = float(candidate)
    return certified


def threshold(
    name: str, edge: Floats, cloud: Floats, labels: Labels, *, cloud_weight: float, epsilon: float,
    delta: float, lost: NDArray[np.bool_] | None = None, labelled: str = "",
) -> Threshold:  # fmt: skip
    """One row of the bundle's table, from calibrated probabilities [N, classes] of both.

    `lost`: which samples are worse off when kept; None: where the edge is wrong and the cloud right.
    `labelled` says in words what `labels` were; empty: true labels.
    """
    if lost is None:
        lost = (edge.argmax(1) != labels) & (cloud.argmax(1) == labels)
    minimum = certified_threshold(edge.max(1), lost, epsilon, delta)
    guarantee = Guarantee(
        statement=(
            f"with probability {1 - delta:g} at most {epsilon:.2%} of samples are kept on the "
            f"edge where it is wrong and the cloud is right{labelled and f' ({labelled})'}"
        ),
        method="learn then test, fixed sequence, exact binomial",
        epsilon=epsilon, delta=delta, samples=len(labels),
    )  # fmt: skip
    return measured(name, minimum, guarantee, edge, cloud, labels, cloud_weight)


def measured(
    name: str, minimum: float, guarantee: Guarantee | None,
    edge: Floats, cloud: Floats, labels: Labels, cloud_weight: float,
) -> Threshold:  # fmt: skip
    """A threshold with its escalated share and hybrid accuracy on these samples."""
    escalated = edge.max(1) < minimum
    fused = fuse(edge, cloud, cloud_weight)
    answers = np.where(escalated, fused.argmax(1), edge.argmax(1))
    return Threshold(
        name=name, confidence_min=minimum, guarantee=guarantee,
        escalated_share=float(escalated.mean()), hybrid_accuracy=float((answers == labels).mean()),
    )  # fmt: skip
