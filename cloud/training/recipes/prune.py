"""`prune`: whole channels go, those with the least norm, and what is left is fitted again.

The kernels that are left are copied into a network of smaller widths, so the graph is really smaller
and needs no sparse arithmetic. Channels that are added to each other go together. Source: Li et al.
2017 (arXiv:1608.08710), whose norms these are.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloud.training.child_messages import Made, Order
from cloud.training.documents import NetworkName, Prune
from cloud.training.recipes import learning_rows, make_bundle, starting
from cloud.training.recipes.ending import as_candidate
from cloud.training.recipes.finetune import MEASURED_ROWS, RANGE_SAMPLES
from cloud.training.recipes.ground import answering, base_of, bundle_of, check_is_new, hashes
from cloud.training.recipes.make_bundle import Ground
from cloud.training.recipes.saying import Saying
from cloud.training.recipes.starting import Weights
from cloud.training.recipes.supervised import fitted

SOFT_SHARE: Final = 0.7
TEMPERATURE: Final = 2.0
"""As a fine-tune has them by default."""
Flow = tuple[str, str, str]
"""A convolution, and the channels that go in and come out, by a name; equal names are one set."""
_PIXELS: Final = "pixels"
_HEAD: Final[dict[NetworkName, str]] = {"edge-net": "c", "cloud-net": "stage2"}
_FLOWS: Final[dict[NetworkName, tuple[Flow, ...]]] = {
    "edge-net": (("block1.0", _PIXELS, "a"), ("block2.0", "a", "b"), ("block3.0", "b", "c")),
    "cloud-net": (
        ("stem.0", _PIXELS, "stem"),
        ("stage1.0.conv1", "stem", "inner1.0"), ("stage1.0.conv2", "inner1.0", "stage1"),
        ("stage1.0.shortcut.0", "stem", "stage1"),
        ("stage1.1.conv1", "stage1", "inner1.1"), ("stage1.1.conv2", "inner1.1", "stage1"),
        ("stage2.0.conv1", "stage1", "inner2.0"), ("stage2.0.conv2", "inner2.0", "stage2"),
        ("stage2.0.shortcut.0", "stage1", "stage2"),
        ("stage2.1.conv1", "stage2", "inner2.1"), ("stage2.1.conv2", "inner2.1", "stage2"),
    ),
}  # fmt: skip


def prune(order: Order, out: Saying) -> Made:
    """Raises `Malformed` and `Unknown` for a source that cannot be pruned, and what `fit` raises."""
    recipe = order.recipe
    assert isinstance(recipe, Prune)
    base = base_of(order)
    source = bundle_of(order, recipe.source, base)
    check_is_new(recipe.version, source)
    teacher = None if recipe.teacher is None else answering(bundle_of(order, recipe.teacher, base))
    weights = starting.weights_of(starting.fp32_graph(source), source.where)
    kind, widths, _ = starting.shape_of(weights, source.where)
    smaller = pruned(weights, kind, recipe.channels_share)
    network = starting.network_from(smaller, base.train.images[:MEASURED_ROWS], source.where)
    _, left, _ = starting.shape_of(smaller, source.where)
    out.said(f"channels {widths} become {left}")
    rows = learning_rows.of_base(
        base.train.images,
        base.train.labels,
        teacher.probabilities if teacher else None,
        SOFT_SHARE,
        len(base.names),
    )
    out.stop_if_asked()
    made_from = hashes(base, source, None if teacher is None else teacher.bundle)
    model = fitted(network, order, out, rows, recipe.fitting, TEMPERATURE, made_from)
    out.stop_if_asked()
    manifest = source.manifest
    candidate = as_candidate(
        model, name=manifest.name, version=recipe.version, answers_for=manifest.answers_for,
        hyperparameters={"prune": recipe.model_dump(mode="json")}, base_rows=len(rows),
        ranges=np.ascontiguousarray(base.train.images[:RANGE_SAMPLES]), soft_by=teacher,
    )  # fmt: skip
    ground = Ground(
        base=base, parent=answering(source), teacher=teacher, dictionary=source.dictionary or None
    )
    return make_bundle.make(candidate, ground, order.folder / "bundle")


def pruned(weights: Weights, kind: NetworkName, share: float) -> Weights:
    """The weights of a network with `share` of each set of channels gone, one at least left."""
    flows = _FLOWS[kind]
    kept = dict[str, NDArray[np.intp]]()
    for channels in dict.fromkeys(flow[2] for flow in flows):
        norms = sum(
            np.square(weights[f"{name}.weight"]).sum((1, 2, 3))
            for name, _, out in flows
            if out == channels
        )
        count = max(round(len(norms) * (1 - share)), 1)
        kept[channels] = np.sort(np.argsort(-norms, kind="stable")[:count])
    smaller = Weights()
    for name, into, out in flows:
        kernel = weights[f"{name}.weight"][kept[out]]
        smaller[f"{name}.weight"] = kernel if into == _PIXELS else kernel[:, kept[into]]
        smaller[f"{name}.weight_bias"] = weights[f"{name}.weight_bias"][kept[out]]
    smaller["head.weight"] = weights["head.weight"][:, kept[_HEAD[kind]]]
    smaller["head.bias"] = weights["head.bias"]
    return smaller
