"""The recipe of each kind: from an `Order` to a bundle in `Order.folder / "bundle"`."""

import json
from collections.abc import Callable

import torch
from torch import Generator, nn
from torch.nn import functional as f

from cloud.training.child_messages import Made, Order
from cloud.training.documents import Supervised
from cloud.training.networks import EdgeNet
from cloud.training.recipes.loop import Batch, FitTask, fit
from cloud.training.recipes.saying import Saying


def _tiny(order: Order, out: Saying) -> Made:
    """A stand-in on drawn data, until the recipes are here."""
    assert isinstance(order.recipe, Supervised)
    torch.manual_seed(order.recipe.fitting.seed)
    labels = torch.randint(0, 3, (512,))
    images = (torch.rand(512, 28, 28) * 60 + 60 * labels[:, None, None]).to(torch.uint8)

    def loss(model: nn.Module, batch: Batch, _: Generator) -> torch.Tensor:
        return f.cross_entropy(model(batch[0]), batch[1])

    fit(
        FitTask(
            model=EdgeNet((4, 6, 8), 3), data=(images, labels), loss=loss,
            fitting=order.recipe.fitting, checkpoints=order.folder / "checkpoints",
            checkpoint_s=order.checkpoint_s, kept=order.checkpoints_kept,
        ),
        out,
    )  # fmt: skip
    bundle = order.folder / "bundle"
    bundle.mkdir(parents=True, exist_ok=True)
    (bundle / "manifest.json").write_text(json.dumps({"name": order.recipe.name}))
    return Made(name=order.recipe.name, version=order.recipe.version, figures={"accuracy": 0.5})


RECIPES: dict[str, Callable[[Order, Saying], Made]] = {"supervised": _tiny}
