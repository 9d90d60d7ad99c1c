"""The recipe of each kind: from an `Order` to a bundle in `Order.folder / "bundle"`."""

from collections.abc import Callable
from typing import Final

from cloud.training.child_messages import Made, Order
from cloud.training.recipes.convert import half, quantize
from cloud.training.recipes.finetune import finetune
from cloud.training.recipes.prune import prune
from cloud.training.recipes.saying import Saying
from cloud.training.recipes.supervised import distill, supervised

RECIPES: Final[dict[str, Callable[[Order, Saying], Made]]] = {
    "supervised": supervised,
    "distill": distill,
    "finetune": finetune,
    "quantize": quantize,
    "prune": prune,
    "fp16": half,
}
