"""A step that raises the loss, along a gradient estimated from queries alone.

Bundles hold inference graphs, which give no gradients. The step is that of FGSM (Goodfellow et al.
2015, arXiv:1412.6572); the gradient is estimated from antithetic pairs of random directions: NES,
Ilyas et al. 2018 (arXiv:1804.08598). It is weaker than an attack with the true gradient.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cloud.registry.evaluation.inputs import Array, Domain

Floats = NDArray[np.float32]
Run = Callable[[Array], Floats]
_BATCH_MAX = 64


@dataclass(frozen=True, slots=True)
class Step:
    """`size` and the length of the queries' steps are shares of the inputs' range."""

    size: float
    directions: int
    seed: int


def stepped(
    rows: Array, labels: NDArray[np.int64], step: Step, domain: Domain, run: Run
) -> tuple[Array, Array]:
    """Rows [N, ...] after the step, and after one of that size in a random direction.

    `run` answers logits [n, classes] for a batch of at most 64; 2 * directions queries a row.
    """
    moved, astray = np.empty_like(rows), np.empty_like(rows)
    for i, row in enumerate(rows):
        rng = np.random.default_rng((step.seed, i, 1))
        center = row.astype(np.float32)
        gradient = _gradient(center, int(labels[i]), step, domain, run, rng)
        size = np.float32(step.size * domain.span)
        moved[i] = domain.clipped(center + size * np.sign(gradient))
        signs = rng.choice(np.array([-1, 1], np.float32), center.shape)
        astray[i] = domain.clipped(center + size * signs)
    return moved, astray


def _gradient(
    center: Floats, label: int, step: Step, domain: Domain, run: Run, rng: np.random.Generator
) -> Floats:
    """Queries step as far as the attack itself: shorter ones are lost in rounding to integers."""
    length = np.float32(step.size * domain.span)
    total = np.zeros_like(center)
    for start in range(0, step.directions, _BATCH_MAX // 2):
        pairs = min(_BATCH_MAX // 2, step.directions - start)
        directions = rng.standard_normal((pairs, *center.shape), np.float32)
        ahead = domain.clipped(center + length * directions)
        behind = domain.clipped(center - length * directions)
        losses = _loss(run(np.concatenate([ahead, behind])), label)
        weights = losses[:pairs] - losses[pairs:]
        total += np.tensordot(weights, directions, axes=1)
    return total


def _loss(logits: Floats, label: int) -> Floats:
    """Cross entropy. What is not finite says nothing about a direction."""
    high = logits.max(axis=1, keepdims=True)
    loss = np.log(np.exp(logits - high).sum(axis=1)) + high[:, 0] - logits[:, label]
    return np.asarray(np.nan_to_num(loss, nan=0.0, posinf=0.0, neginf=0.0), np.float32)
