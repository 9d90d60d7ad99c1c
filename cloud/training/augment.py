"""What training does to a batch: flips, small moves, erasing, and a camera's bad days.

Every function takes float images [N, H, W] in 0..255 and the recipe's own generator, so that a
seed gives one sequence of batches. Random in kind and strength; `shifts.py` is what is tested.
"""

import math

import torch
from torch import Generator, Tensor
from torch.nn import functional as f

MOVE_PIXELS = 2
ERASE_PIXELS = 8


def flip(x: Tensor, g: Generator) -> tuple[Tensor, Tensor]:
    """Mirror half of the images left to right; also which ones, as booleans [N]."""
    chosen = torch.rand(len(x), generator=g) < 0.5
    return torch.where(chosen[:, None, None], x.flip(2), x), chosen


def move(x: Tensor, g: Generator) -> Tensor:
    """Shift the whole batch by up to two pixels each way; what comes in is black."""
    height, width = x.shape[1:]
    top, left = (int(v) for v in torch.randint(0, 2 * MOVE_PIXELS + 1, (2,), generator=g))
    return f.pad(x, (MOVE_PIXELS,) * 4)[:, top : top + height, left : left + width]


def erase(x: Tensor, g: Generator) -> Tensor:
    """Black out a square in half of the images (Zhong et al. 2017, arXiv:1708.04896)."""
    x = x.clone()
    chosen = torch.rand(len(x), generator=g) < 0.5
    top, left = (int(v) for v in torch.randint(0, x.shape[1] - ERASE_PIXELS, (2,), generator=g))
    x[chosen, top : top + ERASE_PIXELS, left : left + ERASE_PIXELS] = 0
    return x


def _rotate(x: Tensor, u: Tensor, _: Generator) -> Tensor:
    angle = (2 * u - 1) * math.radians(25)
    cos, sin, zero = angle.cos(), angle.sin(), torch.zeros_like(angle)
    theta = torch.stack([cos, -sin, zero, sin, cos, zero], 1).view(-1, 2, 3)
    grid = f.affine_grid(theta, [len(x), 1, *x.shape[1:]], align_corners=False)
    return f.grid_sample(x[:, None], grid, align_corners=False)[:, 0]


def _blur(x: Tensor, u: Tensor, _: Generator) -> Tensor:
    sigma = 0.3 + 0.9 * u  # pixels, one for each image
    offsets = torch.arange(-3.0, 4.0)
    taps = torch.exp(-(offsets[None] ** 2) / (2 * sigma[:, None] ** 2))
    taps = taps / taps.sum(1, keepdim=True)
    n = len(x)
    y = f.conv2d(x[None], taps.view(n, 1, 7, 1), padding=(3, 0), groups=n)
    return f.conv2d(y, taps.view(n, 1, 1, 7), padding=(0, 3), groups=n)[0]


def _noise(x: Tensor, u: Tensor, g: Generator) -> Tensor:
    return x + torch.randn(x.shape, generator=g) * 40 * u[:, None, None]


def _brightness(x: Tensor, u: Tensor, _: Generator) -> Tensor:
    return x + (2 * u[:, None, None] - 1) * 75


def _contrast(x: Tensor, u: Tensor, _: Generator) -> Tensor:
    return x * (0.3 + 0.7 * u[:, None, None])


def _coarse(x: Tensor, _: Tensor, __: Generator) -> Tensor:
    return (x.clamp(0, 255) / 17).round() * 17  # sixteen grey levels, as escalations travel


def _camera_fault(x: Tensor, u: Tensor, g: Generator) -> Tensor:
    faded = x * (0.4 + 0.4 * u[:, None, None]) + 60 * torch.rand(len(x), 1, 1, generator=g)
    return faded if len(x) == 0 else _noise(_blur(faded, u, g), u / 2, g)


_BAD_DAYS = (_rotate, _blur, _noise, _brightness, _contrast, _coarse, _camera_fault)
KINDS = ("rotate", "blur", "noise", "brightness", "contrast", "coarse", "camera fault")
"""Their names, in order."""
STRENGTHS = 4
"""Equal parts of each kind's range, which the odds of `bad_day` tell apart."""


def coarsen(x: Tensor, g: Generator, share: float) -> Tensor:
    """Give `share` of the images sixteen grey levels: escalations arrive like that."""
    if share == 0:
        return x
    chosen = torch.rand(len(x), generator=g) < share
    return torch.where(chosen[:, None, None], _coarse(x, x, g), x)


def bad_day(x: Tensor, g: Generator, share: float, odds: Tensor | None = None) -> Tensor:
    """Give `share` of the images one random shift of random strength; round to whole levels.

    `odds` [kinds, STRENGTHS], in the order of `KINDS` and by parts of each kind's range (a rotation from
    left to right, contrast from the faintest image up), sum to 1; None: all alike.
    """
    if share == 0:
        return x
    x = x.clone()
    drawn = torch.rand(len(x), generator=g)
    strength = torch.rand(len(x), generator=g)
    if odds is None:
        kind = (drawn * len(_BAD_DAYS) / share).long()
    else:
        cell = torch.bucketize(drawn, odds.flatten().cumsum(0) * share, right=True)
        kind = cell // STRENGTHS
        strength = (cell % STRENGTHS + strength) / STRENGTHS
    for number, apply in enumerate(_BAD_DAYS):
        chosen = kind == number
        if chosen.any():
            x[chosen] = apply(x[chosen], strength[chosen], g)
    return x.clamp(0, 255).round()
