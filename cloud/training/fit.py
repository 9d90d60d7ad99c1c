"""How both networks of `make models` are fitted: flips, bad days, a teacher, then the one loop."""

import logging
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn
from torch.nn import functional as f

from cloud.training import augment
from cloud.training.child_messages import MESSAGES, Measured
from cloud.training.documents import Fitting
from cloud.training.fashion_mnist import Split
from cloud.training.recipes.loop import Answers, Batch, FitTask, Loss
from cloud.training.recipes.loop import fit as fit_task
from cloud.training.recipes.saying import Saying

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Plan:
    """Hyperparameters of one run; they go into the bundle's lineage as they are."""

    epochs: int
    seed: int
    batch: int = 128
    learning_rate_max: float = 0.1
    weight_decay: float = 5e-4
    bad_day_share: float = 0.0  # share of images given a random shift
    bad_day_share_late: float = 0.0  # the same in the last quarter, which is for clean images
    coarse_share: float = 0.0  # share of images given sixteen grey levels
    moves: bool = False  # shift and erase until the last quarter of the run
    average_decay: float = 0.998  # of the averaged weights, per step
    distill_temperature: float = 3.0  # used when a teacher is given (Hinton 2015)
    distill_share: float = 0.7
    bf16: bool = False


def fit(
    model: nn.Module,
    data: Split,
    plan: Plan,
    *,
    teacher_logits: NDArray[np.float32] | None = None,
    checkpoint: Path | None = None,
) -> nn.Module:
    """Train `model` in place; returns its weight-averaged copy in evaluation mode.

    `teacher_logits` [2, N, classes] are a teacher's for each image as it is and mirrored. With
    `checkpoint`, a folder, the run resumes after its last step there. Raises as `recipes.loop.fit`.
    """
    arrays: Batch = (torch.from_numpy(data.images.copy()), torch.from_numpy(data.labels))
    if teacher_logits is not None:
        arrays += (torch.from_numpy(teacher_logits).transpose(0, 1).contiguous(),)
    with tempfile.TemporaryDirectory() as passing:
        task = FitTask(
            model=model, data=arrays,
            loss=_loss_of(plan, plan.bad_day_share, moves=plan.moves),
            late_loss=_loss_of(plan, plan.bad_day_share_late, moves=False),
            fitting=Fitting(
                epochs=plan.epochs, batch=plan.batch, learning_rate=plan.learning_rate_max,
                weight_decay=plan.weight_decay, seed=plan.seed, bf16=plan.bf16,
            ),
            checkpoints=checkpoint or Path(passing), average_decay=plan.average_decay,
            key=repr(plan),
        )  # fmt: skip
        return fit_task(task, Saying(_log))


def _log(line: bytes) -> None:
    message = MESSAGES.validate_json(line)
    fields = message.values if isinstance(message, Measured) else message.model_dump(mode="json")
    log.info(message.kind, extra={"said": fields})


@torch.no_grad()
def logits_of(model: nn.Module, images: NDArray[np.uint8], batch: int = 500) -> NDArray[np.float32]:
    """Logits [N, classes] of uint8 images [N, 28, 28]."""
    model.eval()
    parts = [
        model(torch.from_numpy(part.copy()))
        for part in np.split(images, range(batch, len(images), batch))
    ]
    return np.asarray(torch.cat(parts).float().numpy(), np.float32)


def _loss_of(plan: Plan, bad_days: float, *, moves: bool) -> Loss:
    def loss(model: Answers, batch: Batch, g: Generator) -> Tensor:
        x, mirrored = augment.flip(batch[0].float(), g)
        if moves:
            x = augment.erase(augment.move(x, g), g)
        x = augment.coarsen(augment.bad_day(x, g, bad_days), g, plan.coarse_share)
        logits = model(x)
        soft = batch[2][torch.arange(len(x)), mirrored.long()] if len(batch) > 2 else None
        return _loss(logits.float(), batch[1], plan, soft)

    return loss


def _loss(logits: Tensor, labels: Tensor, plan: Plan, soft: Tensor | None) -> Tensor:
    hard_loss = f.cross_entropy(logits, labels)
    if soft is None:
        return hard_loss
    t = plan.distill_temperature
    target, mine = f.softmax(soft / t, 1), f.log_softmax(logits / t, 1)
    soft_loss = f.kl_div(mine, target, reduction="batchmean") * t * t
    return plan.distill_share * soft_loss + (1 - plan.distill_share) * hard_loss
