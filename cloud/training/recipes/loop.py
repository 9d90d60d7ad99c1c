"""The one loop that fits weights: ignite's engine, SGD or AdamW on one cycle, averaged weights.

A run that was killed at any point and begins again ends with the very bytes of one that was not:
each epoch draws from a generator of its own, whose state is in the checkpoint with everything else
that a step changes. That holds for one machine, one number of threads and one version of torch, and
for losses that draw from the given generator or torch's own, not from numpy's or Python's.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torch import Generator, Tensor, nn

from cloud.training.documents import Fitting
from cloud.training.recipes.ranks import ranks
from cloud.training.recipes.run import Run, RunEnded
from cloud.training.recipes.saying import Saying
from cloud.training.recipes.turns import Turns, rows_per_epoch
from shared.errors import Malformed

Batch = tuple[Tensor, ...]
Answers = Callable[[Tensor], Tensor]
"""The model as a loss asks it: images [N, H, W] to logits [N, classes], float32 or bfloat16."""
Loss = Callable[[Answers, Batch, Generator], Tensor]
"""The mean over a batch's rows, as a scalar. It draws from the generator alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitTask:
    """One fitting. `model` is fitted in place."""

    model: nn.Module
    data: Batch
    """Each [N, ...], rows together; a batch is the same rows of each."""
    loss: Loss
    turns: Turns | None = None
    """Which of the rows each epoch goes through; None: all of them."""
    fitting: Fitting
    """`batch` is that of all processes together; `augment` is the loss's own business."""
    checkpoints: Path
    """A folder of this fitting alone."""
    late_loss: Loss | None = None
    """In the last quarter of the epochs instead of `loss`: the end is for clean images."""
    validate: Callable[[nn.Module], float] | None = None
    """Loss of the averaged weights after each epoch, in evaluation mode; lower is better."""
    checkpoint_s: float = 30.0
    kept: int = 2
    key: str = ""
    """What else a checkpoint must agree with, beside the data, the settings and the network."""
    made_from: str = ""
    """What the data's fractions were computed from, by hashes: a checkpoint agrees with these then, and not with
    the fractions, whose last bits are another CPU's. Empty: with every bit."""
    momentum: float = 0.9
    """Of SGD."""
    warm_share: float = 0.2
    """Of all steps until the learning rate is at its highest (Smith 2018, arXiv:1803.09820)."""
    average_decay: float = 0.998
    """Of the averaged weights, per step (Polyak and Juditsky 1992)."""
    progress: tuple[float, float] = (0.0, 0.95)
    """Of the whole job: where this fitting begins and ends."""
    last: bool = True
    """Whether the job's other processes are done with it. False: all of them go on with the weights."""


def fit(task: FitTask, out: Saying) -> nn.Module:
    """The averaged weights in evaluation mode; with `fitting.patience` those of the best epoch.

    Goes on from the newest checkpoint that verifies. Raises `Malformed` (data that cannot be fitted),
    `LossNotFinite` at the very step, whose checkpoint then has the weights before it,
    `Unavailable` (`NoRoom`, a disk's fault), `BadCheckpoint`, and `StopAsked` once a checkpoint is written.
    """
    _check(task)
    together = ranks()
    model = Run(task, out, together).fitted()
    if together.rank > 0 and task.last:
        raise RunEnded
    return model


def _check(task: FitTask) -> None:
    rows = {len(part) for part in task.data}
    if len(rows) != 1 or 0 in rows:
        raise Malformed(
            f"data: {sorted(rows)} rows; give arrays of as many rows each, one at least"
        )
    if task.turns is not None and rows_per_epoch(task.turns) == 0:
        raise Malformed("turns: no row is in any epoch; give one at least")
    if task.fitting.patience is not None and task.validate is None:
        raise Malformed("fitting.patience: nothing is validated; leave it out")
    if not any(weight.requires_grad for weight in task.model.parameters()):
        raise Malformed("model: no weight of it may change")
