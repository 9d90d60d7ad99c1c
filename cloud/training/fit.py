"""One seeded training loop for both networks: SGD, one cycle, averaged weights, checkpoints."""

import logging
import os
import time
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as f

from cloud.training import augment
from cloud.training.fashion_mnist import Split

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
    `checkpoint` the run resumes after the last finished epoch; the file is replaced atomically.
    Raises `FloatingPointError` at the first loss that is not finite.
    """
    model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stub lacks it
    averaged = deepcopy(model)
    images, labels = torch.from_numpy(data.images.copy()), torch.from_numpy(data.labels)
    soft = None if teacher_logits is None else torch.from_numpy(teacher_logits)
    steps_per_epoch = -(-len(data) // plan.batch)
    optimizer = torch.optim.SGD(
        _decayed(model, plan.weight_decay), plan.learning_rate_max, momentum=0.9, nesterov=True
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, plan.learning_rate_max, total_steps=plan.epochs * steps_per_epoch, pct_start=0.2
    )
    parts = {"model": model, "averaged": averaged, "optimizer": optimizer, "schedule": schedule}
    first = _resume(checkpoint, parts) if checkpoint is not None else 0
    for epoch in range(first, plan.epochs):
        started = time.monotonic()
        # One generator for each epoch: a resumed run sees the batches it would have seen.
        g = torch.Generator().manual_seed(plan.seed * 10_000 + epoch)
        late = epoch >= plan.epochs * 3 // 4
        bad_days = plan.bad_day_share_late if late else plan.bad_day_share
        model.train()
        total = 0.0
        for chosen in torch.randperm(len(data), generator=g).split(plan.batch):
            x, mirrored = augment.flip(images[chosen].float(), g)
            if plan.moves and not late:
                x = augment.erase(augment.move(x, g), g)
            x = augment.coarsen(augment.bad_day(x, g, bad_days), g, plan.coarse_share)
            with torch.autocast("cpu", torch.bfloat16, enabled=plan.bf16):
                logits = model(x)
            target = None if soft is None else soft[mirrored.long(), chosen]
            loss = _loss(logits.float(), labels[chosen], plan, target)
            if not torch.isfinite(loss):
                raise FloatingPointError(f"epoch {epoch}: loss is {loss.item()}")
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
            _average(averaged, model, plan.average_decay)
            total += loss.item() * len(chosen)
        if checkpoint is not None:
            _save(checkpoint, parts, epoch + 1)
        log.info("epoch_finished", extra={
            "epoch": epoch + 1, "of": plan.epochs, "loss": round(total / len(data), 4),
            "seconds": round(time.monotonic() - started, 1)})  # fmt: skip
    return averaged.eval()


@torch.no_grad()
def logits_of(model: nn.Module, images: NDArray[np.uint8], batch: int = 500) -> NDArray[np.float32]:
    """Logits [N, classes] of uint8 images [N, 28, 28]."""
    model.eval()
    parts = [
        model(torch.from_numpy(part.copy()))
        for part in np.split(images, range(batch, len(images), batch))
    ]
    return np.asarray(torch.cat(parts).float().numpy(), np.float32)


def _loss(logits: Tensor, labels: Tensor, plan: Plan, soft: Tensor | None) -> Tensor:
    hard_loss = f.cross_entropy(logits, labels)
    if soft is None:
        return hard_loss
    t = plan.distill_temperature
    target, mine = f.softmax(soft / t, 1), f.log_softmax(logits / t, 1)
    soft_loss = f.kl_div(mine, target, reduction="batchmean") * t * t
    return plan.distill_share * soft_loss + (1 - plan.distill_share) * hard_loss


def _decayed(model: nn.Module, weight_decay: float) -> list[dict[str, object]]:
    """Weight decay on matrices and kernels only, not on norms and biases."""
    kernels = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    return [{"params": kernels, "weight_decay": weight_decay},
            {"params": others, "weight_decay": 0.0}]  # fmt: skip


@torch.no_grad()
def _average(averaged: nn.Module, model: nn.Module, decay: float) -> None:
    """Exponential moving average of weights and of batch statistics alike."""
    for kept, new in zip(averaged.state_dict().values(), model.state_dict().values(), strict=True):
        if kept.is_floating_point():
            kept.lerp_(new, 1 - decay)
        else:
            kept.copy_(new)


def _save(path: Path, parts: dict[str, object], epochs_done: int) -> None:
    state = {name: part.state_dict() for name, part in parts.items()}  # type: ignore[attr-defined]  # all four have it
    partial = path.with_suffix(".partial")
    with partial.open("wb") as file:
        torch.save({"epochs_done": epochs_done, **state}, file)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def _resume(path: Path, parts: dict[str, object]) -> int:
    if not path.exists():
        return 0
    state = torch.load(path, weights_only=True)
    for name, part in parts.items():
        part.load_state_dict(state[name])  # type: ignore[attr-defined]  # all four have it
    log.info("resumed", extra={"checkpoint": str(path), "epochs_done": state["epochs_done"]})
    return int(state["epochs_done"])
