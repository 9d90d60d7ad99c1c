"""An escalation threshold from what came back: fresh audits and escalations, no new model. Pure.

Audits are drawn from confident samples with a small probability, escalations are all sent, so a
sample stands for 1 / share like it. Thinned to the smallest share, what is left is a plain random
draw of all that the devices saw, and then the bundle's own test applies: learn then test with an
exact binomial (Angelopoulos et al. 2021, arXiv:2110.01052; `cloud/training/calibrate.py`). Weighting
instead would need a bound for weighted losses, which is looser than what thinning loses.

A sample is lost when it stays on the edge, where the edge is wrong and the cloud is right: by a
person's label where there is one, else by the cloud's word, so that any disagreement counts.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloud.feedback.answers import AnswerRows
from cloud.training.calibrate import ESCALATE_ALL, certified_threshold
from shared.errors import Conflict

_SEED: Final = 0


@dataclass(frozen=True, slots=True)
class Fitted:
    confidence_min: float
    escalated_share: float
    samples: int
    """That it stands on, after thinning."""
    words: str


def fit(rows: AnswerRows, epsilon: float, delta: float) -> Fitted:
    """The lowest threshold at which, with probability 1 - `delta`, at most a share of `epsilon` of
    all samples is lost. The same rows give the same threshold.

    Raises `Conflict` where so few samples cannot say anything but "escalate all".
    """
    least, kept = samples_min(epsilon, delta), thinned(rows.shares)
    count = int(kept.sum())
    if count < least:
        smallest = float(rows.shares.min(initial=1.0))
        raise Conflict(
            f"{len(rows)} samples, sent with a probability of {smallest:.3g} at least, count as "
            f"{count} drawn at random, which can only say 100% escalation; with epsilon "
            f"{epsilon:g} and delta {delta:g} it takes {least}: wait, or raise the audit share"
        )
    lost = (rows.edge_labels != rows.labels) & (rows.cloud_labels == rows.labels)
    confidence = rows.edge_confidence
    found = certified_threshold(confidence[kept].astype(np.float32), lost[kept], epsilon, delta)
    if found >= ESCALATE_ALL:
        raise Conflict(
            f"{count} samples drawn at random can only say 100% escalation at epsilon "
            f"{epsilon:g}: {int(lost[kept].sum())} of them would be lost on the edge; a new model is "
            "needed (hybridge loop begin), or a larger epsilon"
        )
    weights = 1 / rows.shares
    escalated = float(weights[confidence < found].sum() / weights.sum())
    words = (
        f"with probability {1 - delta:g} at most {epsilon:.2%} of samples stay on the edge where it "
        f"is wrong and the cloud is right, by {count} samples drawn at random from {len(rows)}"
    )
    return Fitted(found, escalated, count, words)


def samples_min(epsilon: float, delta: float) -> int:
    """So many without one loss pass the test; fewer never do."""
    return math.ceil(math.log(delta) / math.log1p(-epsilon))


def thinned(shares: NDArray[np.float64]) -> NDArray[np.bool_]:
    """[N]: each is kept with the smallest share's probability over its own."""
    draws = np.random.default_rng(_SEED).random(len(shares))
    kept: NDArray[np.bool_] = draws * shares < shares.min(initial=1.0)
    return kept
