"""Rows that a network is fitted to, whatever they come from, and what a batch of them costs.

A row has an image, a label, soft labels as it is and mirrored, how much the soft ones count, and its
weight. Person's labels are hard; a cloud's and a teacher's are soft (Hinton et al. 2015,
arXiv:1503.02531).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor
from torch.nn import functional as f

from cloud.training import augment
from cloud.training.documents import Fitting
from cloud.training.recipes.field import Field
from cloud.training.recipes.loop import Answers, Batch, Loss

LEVEL = 17.0
"""Grey levels between two of sixteen: what came back was rounded to whole ones of these."""
WEIGHT_MAX = 5.0
"""Of an audit: it stands for more than it is worth to a batch when audits are rare."""
_TINY = 1e-7

SoftLabels = Callable[[NDArray[np.uint8]], NDArray[np.float32]]
"""Probabilities [N, classes] of images [N, H, W]."""


@dataclass(frozen=True, slots=True)
class Rows:
    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    soft: NDArray[np.float32]
    """[N, 2, classes]: probabilities of the image as it is, and mirrored."""
    soft_share: NDArray[np.float32]
    """[N]: of the soft loss; the hard one has the rest."""
    coarse: NDArray[np.bool_]
    """[N]: it travelled in sixteen grey levels."""
    weight: NDArray[np.float32]
    """[N]: how much its loss counts."""
    by_person: NDArray[np.bool_]
    """[N]: a person has said what it is."""

    def __len__(self) -> int:
        return len(self.labels)

    def taken(self, chosen: NDArray[np.intp]) -> "Rows":
        return Rows(*(getattr(self, one.name)[chosen] for one in fields(self)))


def joined(parts: Sequence[Rows]) -> Rows:
    return Rows(
        *(np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(Rows))
    )


def of_field(field: Field, soft_share: float) -> Rows:
    """What came back: soft by the cloud's own words, hard where a person has said what it is."""
    return Rows(
        field.images, field.labels, np.stack([field.soft, field.soft], 1),
        np.where(field.by_person, 0, soft_share).astype(np.float32),
        np.ones(len(field), np.bool_),
        np.minimum(1 / field.shares, WEIGHT_MAX).astype(np.float32), field.by_person,
    )  # fmt: skip


def of_base(
    images: NDArray[np.uint8], labels: NDArray[np.int64], soft_labels: SoftLabels | None,
    soft_share: float, classes: int,
) -> Rows:  # fmt: skip
    """Base data with its labels, and the soft ones that somebody gives it."""
    if soft_labels is None or not len(labels):
        return Rows(
            images, labels, np.full((len(labels), 2, classes), 1 / classes, np.float32),
            np.zeros(len(labels), np.float32), np.zeros(len(labels), np.bool_),
            np.ones(len(labels), np.float32), np.zeros(len(labels), np.bool_),
        )  # fmt: skip
    mirrored = np.ascontiguousarray(images[:, :, ::-1])
    soft = np.stack([soft_labels(images), soft_labels(mirrored)], 1)
    return Rows(
        images, labels, soft, np.full(len(labels), soft_share, np.float32),
        np.zeros(len(labels), np.bool_), np.ones(len(labels), np.float32),
        np.zeros(len(labels), np.bool_),
    )  # fmt: skip


def average_decay(rows: int, fitting: Fitting, steps_max: int) -> float:
    """Of the averaged weights, for `rows` an epoch: over the last `steps_max` steps, or a third of a short run's, which
    would otherwise end with much of the weights that it began with.
    """
    steps = fitting.epochs * -(-max(rows, 1) // fitting.batch)
    return 1 - min(max(1 / steps_max, 3 / steps), 1.0)


def as_batch(rows: Rows) -> Batch:
    """In the order that `loss_of` expects."""
    return (
        torch.from_numpy(rows.images.copy()), torch.from_numpy(rows.labels.copy()),
        torch.from_numpy(rows.soft), torch.from_numpy(rows.soft_share),
        torch.from_numpy(rows.coarse), torch.from_numpy(rows.weight / rows.weight.mean()),
    )  # fmt: skip


def loss_of(
    *, temperature: float, bad_day_share: float, odds: NDArray[np.float32] | None = None
) -> Loss:
    """Cross entropy and the divergence from soft labels at `temperature`, mean over the batch.

    `bad_day_share` of the base data's images get a random shift, of kinds and strengths by `odds` (`augment.bad_day`);
    what came from the field has had its own. Half of all images are mirrored.
    """
    drawn = None if odds is None else torch.from_numpy(odds)

    def loss(model: Answers, batch: Batch, g: Generator) -> Tensor:
        images, labels, soft, soft_share, coarse, weight = batch
        x = images.float()
        from_field = coarse[:, None, None]
        # Devices see all levels: within one, the true grey may have been anywhere.
        spread = (torch.rand(x.shape, generator=g) - 0.5) * LEVEL * (x > 0)
        x = torch.where(from_field, (x + spread).clamp(0, 255), x)
        x, mirrored = augment.flip(x, g)
        if bad_day_share:
            x = torch.where(from_field, x, augment.bad_day(x, g, bad_day_share, drawn))
        logits = model(x).float()
        wanted = soft[torch.arange(len(x)), mirrored.long()]
        return (costs(logits, labels, wanted, soft_share, temperature) * weight).mean()

    return loss


def costs(
    logits: Tensor, labels: Tensor, soft: Tensor, soft_share: Tensor, temperature: float
) -> Tensor:
    """[N] of `logits` [N, classes]: from `labels` [N], and from `soft` [N, classes] by their share."""
    hard = f.cross_entropy(logits, labels, reduction="none")
    wanted = f.softmax((soft + _TINY).log() / temperature, 1)
    apart = f.kl_div(f.log_softmax(logits / temperature, 1), wanted, reduction="none").sum(1)
    return soft_share * apart * temperature**2 + (1 - soft_share) * hard
