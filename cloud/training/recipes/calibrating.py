"""Temperature, thresholds and fusion weight of a new model, on base data and on the field. Pure.

The base data's calibration split has true labels. The field's held-out samples have a person's word
where there is one and the cloud's elsewhere; there the loss "edge wrong, cloud right" becomes "edge
and cloud differ", which needs no truth (FINDINGS 10). Only a fair draw of them joins the exact
test: it holds for one mixture of what the base data shows and what devices see, and says which.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloud.training import calibrate
from cloud.training.recipes.field import Field
from shared.bundle.manifest import Calibration
from shared.confidence import softmax

Floats = NDArray[np.float32]
EPSILONS: Final = (0.002, 0.003, 0.005, 0.01)
DEFAULT_EPSILON: Final = 0.005
DELTA: Final = 0.05
_UNSURE_SHARE = 0.15  # fusion is fitted on those, which are the ones that escalate
_DRAW_SEED = 7


@dataclass(frozen=True, slots=True)
class Sight:
    """What was answered to N samples whose labels are `labels`."""

    logits: Floats
    """[N, classes], the new model's as devices run it."""
    cloud: Floats | None
    """[N, classes], the cloud's calibrated probabilities for what arrives; None: nobody asked it."""
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)


def threshold_name(epsilon: float) -> str:
    return f"loss-{epsilon * 1000:g}-per-mille"


def plain(base: Sight) -> Calibration:
    """Of a model that never escalates."""
    return Calibration(
        temperature=calibrate.temperature(base.logits, base.labels), score="max_softmax"
    )


def escalating(base: Sight, field: Field | None, field_logits: Floats | None) -> Calibration:
    """`field` are held-out samples, `field_logits` [N, classes] the new model's for them."""
    drawn = _drawn(field, field_logits)
    logits = np.concatenate([base.logits, drawn.logits]) if drawn else base.logits
    labels = np.concatenate([base.labels, drawn.labels]) if drawn else base.labels
    temperature = calibrate.temperature(logits, labels)
    edge = softmax(logits, temperature)
    base_cloud = softmax(base.logits, temperature) if base.cloud is None else base.cloud
    cloud = np.concatenate([base_cloud, drawn.cloud]) if drawn else base_cloud
    lost = (edge.argmax(1) != labels) & (cloud.argmax(1) == labels)
    if base.cloud is None:  # then the cloud may be right about every one of them
        lost[: len(base)] = edge[: len(base)].argmax(1) != base.labels
    weight = _fusion(edge, cloud, labels, base.cloud is not None or drawn is not None)
    table = tuple(
        calibrate.threshold(
            threshold_name(epsilon), edge, cloud, labels, cloud_weight=weight, epsilon=epsilon,
            delta=DELTA, lost=lost, labelled=_labelled(base, drawn, field),
        )
        for epsilon in EPSILONS
    )  # fmt: skip
    escalate_all = calibrate.measured(
        "escalate-all", calibrate.ESCALATE_ALL, None, edge, cloud, labels, weight
    )
    return Calibration(
        temperature=temperature, score="max_softmax", thresholds=(*table, escalate_all),
        default_threshold=threshold_name(DEFAULT_EPSILON), fusion_cloud_weight=weight,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Drawn:
    logits: Floats
    cloud: Floats
    labels: NDArray[np.int64]
    by_person: int

    def __len__(self) -> int:
        return len(self.labels)


def _drawn(field: Field | None, logits: Floats | None) -> _Drawn | None:
    """A fair draw of the held-out samples; None when there are none."""
    if field is None or logits is None:
        return None
    chosen = field.fair_draw(np.random.default_rng(_DRAW_SEED))
    part = field.taken(chosen)
    if not len(part):
        return None
    return _Drawn(logits[chosen], part.soft, part.labels, int(part.by_person.sum()))


def _fusion(edge: Floats, cloud: Floats, labels: NDArray[np.int64], cloud_known: bool) -> float:
    if not cloud_known:
        return 1.0
    unsure = edge.max(1) < np.quantile(edge.max(1), _UNSURE_SHARE)
    if not unsure.any():
        return 1.0
    return calibrate.fusion_weight(edge[unsure], cloud[unsure], labels[unsure])


def _labelled(base: Sight, drawn: _Drawn | None, field: Field | None) -> str:
    """What the labels were, for the guarantee's statement."""
    said = f"{len(base)} samples of base data with true labels"
    if base.cloud is None:
        said += ", the cloud taken for right on all of them"
    if drawn is not None and field is not None:
        by_cloud = len(drawn) - drawn.by_person
        said += (
            f"; {len(drawn)} from the field, {drawn.by_person} labelled by people and {by_cloud} by "
            "the cloud, whose word counts as right"
        )
    return said
