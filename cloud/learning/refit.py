"""An escalation threshold from what came back: fresh audits and escalations, no new model. Pure.

Audits are drawn from confident samples with a small probability, escalations are all sent, so a
sample stands for 1 / share like it. Thinned to the smallest share, what is left is a plain random
draw of all that the devices saw, and then the bundle's own test applies: learn then test with an
exact binomial (Angelopoulos et al. 2021, arXiv:2110.01052; `cloud/training/calibrate.py`). Weighting
instead would need a bound for weighted losses, which is looser than what thinning loses.

A sample is lost when it stays on the edge, where the edge is wrong and the cloud is right: by a
person's label where there is one, else by the cloud's word, so that any disagreement counts.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from cloud.feedback.documents import FeedbackSample, Source
from cloud.training.calibrate import ESCALATE_ALL, certified_threshold
from shared.errors import Conflict

_UNITS: Final = 2**64


@dataclass(frozen=True, slots=True)
class Seen:
    """One sample that came back."""

    id: str
    confidence: float
    """Of the edge."""
    lost: bool
    """If it had stayed on the edge."""
    share: float
    """With which probability a sample like it was sent."""


@dataclass(frozen=True, slots=True)
class Fitted:
    confidence_min: float
    escalated_share: float
    samples: int
    """That it stands on, after thinning."""
    words: str


def seen(sample: FeedbackSample) -> Seen | None:
    """None where people disagree about it."""
    if sample.contradicted:
        return None
    if sample.label_source is Source.PERSON:
        lost = sample.edge_label != sample.label and sample.cloud_label == sample.label
    else:
        lost = sample.edge_label != sample.cloud_label
    return Seen(f"{sample.device}/{sample.id}", sample.edge_confidence, lost, sample.share)


def fit(rows: Sequence[Seen], epsilon: float, delta: float) -> Fitted:
    """The lowest threshold at which, with probability 1 - `delta`, at most a share of `epsilon` of
    all samples is lost. The same rows give the same threshold.

    Raises `Conflict` where so few samples cannot say anything but "escalate all".
    """
    least = samples_min(epsilon, delta)
    drawn = thinned(rows)
    if len(drawn) < least:
        smallest = min((row.share for row in rows), default=1.0)
        raise Conflict(
            f"{len(rows)} samples, sent with a probability of {smallest:.3g} at least, count as "
            f"{len(drawn)} drawn at random, which can only say 100% escalation; with epsilon "
            f"{epsilon:g} and delta {delta:g} it takes {least}: wait, or raise the audit share"
        )
    confidence = np.array([row.confidence for row in drawn], np.float32)
    lost = np.array([row.lost for row in drawn], np.bool_)
    found = certified_threshold(confidence, lost, epsilon, delta)
    if found >= ESCALATE_ALL:
        raise Conflict(
            f"{len(drawn)} samples drawn at random can only say 100% escalation at epsilon "
            f"{epsilon:g}: {int(lost.sum())} of them would be lost on the edge; a new model is "
            "needed (hybridge loop begin), or a larger epsilon"
        )
    weight = sum(1 / row.share for row in rows)
    escalated = sum(1 / row.share for row in rows if row.confidence < found) / weight
    words = (
        f"with probability {1 - delta:g} at most {epsilon:.2%} of samples stay on the edge where it "
        f"is wrong and the cloud is right, by {len(drawn)} samples drawn at random from {len(rows)}"
    )
    return Fitted(found, escalated, len(drawn), words)


def samples_min(epsilon: float, delta: float) -> int:
    """So many without one loss pass the test; fewer never do."""
    return math.ceil(math.log(delta) / math.log1p(-epsilon))


def thinned(rows: Sequence[Seen]) -> list[Seen]:
    """Each with the smallest share's probability over its own, by a hash of its name."""
    smallest = min((row.share for row in rows), default=1.0)
    return [row for row in rows if _unit(row.id) * row.share < smallest]


def _unit(name: str) -> float:
    """A number in 0..1 that looks drawn."""
    return int.from_bytes(hashlib.sha256(f"refit {name}".encode()).digest()[:8]) / _UNITS
