"""What each step does to the weights: SGD or AdamW on one cycle, and their running average."""

import torch
from torch import nn

from cloud.training.documents import Fitting

ADAM_BETAS = (0.9, 0.99)
"""A fine-tune has a few hundred steps, so the second moment looks back over a hundred."""


def optimizer(
    model: nn.Module, fitting: Fitting, steps: int, *, momentum: float, warm_share: float
) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.OneCycleLR]:
    """SGD with Nesterov momentum, or AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101); the learning
    rate rises for `warm_share` of `steps` and falls to nothing.
    """
    weights = _decayed(model, fitting.weight_decay)
    chosen: torch.optim.Optimizer
    if fitting.optimizer == "adamw":
        chosen = torch.optim.AdamW(weights, fitting.learning_rate, betas=ADAM_BETAS)
    else:
        chosen = torch.optim.SGD(
            weights, fitting.learning_rate, momentum=momentum, nesterov=momentum > 0
        )
    if warm_share * steps == 1:
        warm_share = min(1.0, 2 / steps)  # OneCycleLR divides by the steps of its rise, less one
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        chosen, fitting.learning_rate, total_steps=steps, pct_start=warm_share
    )
    return chosen, schedule


@torch.no_grad()
def average(averaged: nn.Module, model: nn.Module, decay: float, step: int) -> None:
    """Exponential moving average of weights and of batch statistics alike; `step` counts from 1.

    The first steps take more of the new, so that nothing of what a run began with is left at its end: a
    twentieth of a first variance of 1 is many times what a small network's channels have.
    """
    decay = min(decay, step / (9 + step))
    news = model.state_dict().values()
    for kept, new in zip(averaged.state_dict().values(), news, strict=True):
        if kept.is_floating_point():
            kept.lerp_(new, 1 - decay)
        else:
            kept.copy_(new)


def _decayed(model: nn.Module, weight_decay: float) -> list[dict[str, object]]:
    """Weight decay on matrices and kernels only, not on norms and biases."""
    weights = [p for p in model.parameters() if p.requires_grad]
    return [{"params": [p for p in weights if p.ndim > 1], "weight_decay": weight_decay},
            {"params": [p for p in weights if p.ndim <= 1], "weight_decay": 0.0}]  # fmt: skip


def computes_in_bf16() -> bool:
    """Whether the CPU has instructions for it; without them it would be slower than float32."""
    has = torch.cpu.get_capabilities()
    return bool(has.get("avx512_bf16") or has.get("amx_bf16"))
