"""What has happened to the images that came back: which of training's own bad days they look like.

A linear model learns to tell base images with each kind of bad day and each strength of it apart, from
how the student's own convolutions answer them; what it says of the field, averaged, are the odds.
Base images with these, and with their true labels, then teach beside the feedback: a teacher's
mistakes under the shift are not in them. That the averages of a classifier tell how a mixture is made up: Saerens et
al. 2002 (Neural Computation 14), here without the correction that only exact shares would need.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as f

from cloud.training import augment
from cloud.training.recipes.field import Field
from cloud.training.recipes.starting import normalized

EACH: Final = 200
"""Base images of each kind and strength: odds within a few points, in three seconds."""
SEEN: Final = 400
"""Of the field."""
_KINDS: Final = [n for n, kind in enumerate(augment.KINDS) if kind != "coarse"]
_STEPS, _RATE, _DECAY = 150, 0.05, 1e-3
_BATCH = 200


@dataclass(frozen=True, slots=True)
class Likeness:
    ordinary: float
    """Share of the field that looks like base data as it is."""
    changed: float
    """Share of base images that the network answers otherwise once shifted by `odds`."""
    odds: NDArray[np.float32]
    """[kinds, strengths], as `augment.bad_day` takes them: of the rest. They sum to 1; all of it has
    sixteen levels, so "coarse" has none."""

    def __str__(self) -> str:
        kinds = sorted(zip(self.odds.sum(1), augment.KINDS, strict=True), reverse=True)
        said = ", ".join(f"{kind} {share:.0%}" for share, kind in kinds[:3])
        return (
            f"{self.ordinary:.0%} of the field looks as base data does; the rest like {said}, under "
            f"which {self.changed:.0%} of base data gets another answer"
        )


def likeness(network: nn.Module, base: NDArray[np.uint8], field: Field, seed: int) -> Likeness:
    """`base` [N, H, W] are images of base data. Deterministic for a seed and a number of threads."""
    rng, g = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    drawn = rng.permutation(len(base))[: EACH * augment.STRENGTHS]
    images = torch.from_numpy(base[drawn].copy()).float()
    cells = [(kind, n) for kind in _KINDS for n in range(augment.STRENGTHS)]
    shifted = [images]  # as many as of all strengths of one kind
    shifted += [augment.bad_day(images[:EACH], g, 1.0, _only(*cell)) for cell in cells]
    # What came back has sixteen levels, whatever else has happened to it.
    coarse = [augment.coarsen(one, g, 1.0) for one in shifted]
    known = torch.cat([_answers(network, one) for one in coarse])
    labels = torch.cat([torch.full((len(one),), n) for n, one in enumerate(shifted)])
    chosen = rng.choice(len(field), SEEN, p=field.weights / field.weights.sum())
    seen = _answers(network, torch.from_numpy(field.images[chosen]).float())
    mean, spread = known.mean(0), known.std(0) + 1e-6
    linear = _fitted((known - mean) / spread, labels)
    with torch.no_grad():
        shares = f.softmax(linear((seen - mean) / spread), 1).mean(0)
    odds = np.zeros((len(augment.KINDS), augment.STRENGTHS), np.float32)
    for (kind, n), share in zip(cells, shares[1:], strict=True):
        odds[kind, n] = share
    odds /= odds.sum()
    changed = augment.bad_day(images, g, 1.0, torch.from_numpy(odds))
    differ = _winners(network, images) != _winners(network, changed)
    return Likeness(float(shares[0]), float(differ.float().mean()), odds)


def _only(kind: int, strength: int) -> Tensor:
    odds = torch.zeros(len(augment.KINDS), augment.STRENGTHS)
    odds[kind, strength] = 1
    return odds


@torch.no_grad()
def _winners(network: nn.Module, images: Tensor) -> Tensor:
    """[N]."""
    network.eval()
    return torch.cat([network(part).argmax(1) for part in images.split(_BATCH)])


@torch.no_grad()
def _answers(network: nn.Module, images: Tensor) -> Tensor:
    """[N, 2 x channels]: mean and deviation of each convolution's output over each image."""
    kept = list[Tensor]()

    def keep(_: nn.Module, __: object, output: Tensor) -> None:
        kept.append(torch.cat([output.mean((2, 3)), output.std((2, 3))], 1))

    hooks = [convolution.register_forward_hook(keep) for _, convolution, _ in normalized(network)]
    network.eval()
    answers = list[Tensor]()
    for part in images.clamp(0, 255).split(_BATCH):
        kept.clear()
        network(part)
        answers.append(torch.cat(kept, 1))
    for hook in hooks:
        hook.remove()
    return torch.cat(answers)


def _fitted(features: Tensor, labels: Tensor) -> nn.Linear:
    """Softmax regression, from zero, whatever it was made with."""
    linear = nn.Linear(features.shape[1], int(labels.max()) + 1)
    nn.init.zeros_(linear.weight)
    nn.init.zeros_(linear.bias)
    optimizer = torch.optim.Adam(linear.parameters(), _RATE, weight_decay=_DECAY)
    for _ in range(_STEPS):
        loss = f.cross_entropy(linear(features), labels)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return linear
