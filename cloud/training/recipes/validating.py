"""What `fitting.patience` goes by: rows that are kept from fitting, and the loss on them."""

from collections.abc import Callable
from typing import Final

import numpy as np
import torch
from torch import nn

from cloud.training.documents import Fitting
from cloud.training.recipes.learning_rows import Rows, as_batch, costs

KEPT_SHARE: Final = 0.1
KEPT_MAX: Final = 2_000
"""Their mean loss is known to a few hundredths of itself; more would only cost time."""
_AT_ONCE: Final = 500
_SEED_AFTER: Final = 1_000_003
"""Between the seed of a fitting and that of what it keeps apart."""

Validate = Callable[[nn.Module], float]


def kept_apart(rows: Rows, fitting: Fitting, temperature: float) -> tuple[Rows, Validate | None]:
    """What is fitted, and the loss on what is not: weighted as in fitting, on images as they are.

    Without `patience` all rows are fitted and nothing is looked at. The same rows and seed give the
    same ones, on every rank.
    """
    if fitting.patience is None:
        return rows, None
    count = min(max(round(len(rows) * KEPT_SHARE), 1), KEPT_MAX)
    drawn = np.random.default_rng(fitting.seed + _SEED_AFTER).permutation(len(rows))
    return rows.taken(np.sort(drawn[count:])), _loss_on(rows.taken(drawn[:count]), temperature)


def _loss_on(rows: Rows, temperature: float) -> Validate:
    parts = list(zip(*(part.split(_AT_ONCE) for part in as_batch(rows)), strict=True))

    @torch.no_grad()
    def loss(model: nn.Module) -> float:
        each = [
            costs(model(images.float()).float(), labels, soft[:, 0], soft_share, temperature)
            * weight
            for images, labels, soft, soft_share, _, weight in parts
        ]
        return float(torch.cat(each).mean())

    return loss
