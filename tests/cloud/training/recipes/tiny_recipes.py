"""Recipes small enough for tests, by the name of the bundle; what they end with is `weights.bin`."""

import os
import sys
from pathlib import Path

import torch
from torch import Generator, Tensor, nn
from torch import distributed as dist
from torch.nn import functional as f

from cloud.training.child_messages import Made, Order
from cloud.training.documents import Fitting, Supervised
from cloud.training.recipes.loop import Answers, Batch, FitTask, fit
from cloud.training.recipes.saying import Saying

ROWS, CLASSES = 96, 3


class TinyNet(nn.Module):
    """A convolution, batch statistics and dropout: everything that has a state of its own."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.conv = nn.Conv2d(1, 4, 3, padding=1, bias=False)
            self.norm = nn.BatchNorm2d(4)
            self.head = nn.Linear(4, CLASSES)

    def forward(self, image: Tensor) -> Tensor:
        x = f.relu(self.norm(self.conv(image.unsqueeze(1).float() / 255)))
        return self.head(f.dropout(x.mean((2, 3)), 0.1, self.training))


def tiny_data(rows: int = ROWS) -> Batch:
    g = torch.Generator().manual_seed(5)
    labels = torch.randint(0, CLASSES, (rows,), generator=g)
    images = torch.rand(rows, 8, 8, generator=g) * 80 + 60 * labels[:, None, None]
    return images.to(torch.uint8), labels


class SteadyNet(TinyNet):
    """Always in evaluation mode, so that a row's loss is the same whatever batch it is in."""

    def train(self, _mode: bool = True) -> "SteadyNet":
        return super().train(False)


def tiny_loss(model: Answers, batch: Batch, g: Generator) -> Tensor:
    images = batch[0].float()
    return f.cross_entropy(model(images + 5 * torch.randn(images.shape, generator=g)), batch[1])


def plain_loss(model: Answers, batch: Batch, _: Generator) -> Tensor:
    return f.cross_entropy(model(batch[0]), batch[1])


def tiny_validation(model: nn.Module) -> float:
    images, labels = tiny_data()
    with torch.no_grad():
        return float(f.cross_entropy(model(images), labels))


def bytes_of(model: nn.Module) -> bytes:
    return b"".join(tensor.contiguous().numpy().tobytes() for tensor in model.state_dict().values())


def tiny_task(folder: Path, **more: object) -> FitTask:
    settings = {
        "model": TinyNet(1), "data": tiny_data(), "loss": tiny_loss, "checkpoints": folder,
        "fitting": Fitting(epochs=3, batch=32, seed=3),
    }  # fmt: skip
    return FitTask(**{**settings, **more})  # type: ignore[arg-type]  # what a test sets


def _supervised(order: Order, out: Saying) -> Made:
    recipe = order.recipe
    assert isinstance(recipe, Supervised)
    more: dict[str, object] = {}
    match recipe.name:
        case "nan":
            more["data"] = (tiny_data()[0], tiny_data()[1], torch.full((ROWS,), torch.nan))
            more["loss"] = lambda model, batch, g: tiny_loss(model, batch, g) + batch[2].mean()
        case "bug":
            raise ValueError("something that nobody thought of")
        case "prints":
            print("a library says hello")
            os.write(1, b"and so does its C++\n")
            sys.stdout.flush()
        case "plain":
            more |= {"model": SteadyNet(1), "loss": plain_loss}
        case "lost" if _rank() == 1:
            more["loss"] = _killed_at_step(5)
        case "refuses" if _rank() == 1:
            more["loss"] = _raises
    model = fit(
        tiny_task(
            order.folder / "checkpoints", fitting=recipe.fitting, checkpoint_s=order.checkpoint_s,
            kept=order.checkpoints_kept, **more,
        ),
        out,
    )  # fmt: skip
    (order.folder / "weights.bin").write_bytes(bytes_of(model))
    return Made(
        name=recipe.name, version=recipe.version,
        figures={"validation.loss": tiny_validation(model)},
    )  # fmt: skip


def _rank() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


def _killed_at_step(step: int) -> object:
    seen = 0

    def loss(model: Answers, batch: Batch, g: Generator) -> Tensor:
        nonlocal seen
        seen += 1
        if seen == step:
            os.kill(os.getpid(), 9)
        return tiny_loss(model, batch, g)

    return loss


def _raises(*_: object) -> Tensor:
    raise ValueError("this rank alone fails")


RECIPES = {"supervised": _supervised}
