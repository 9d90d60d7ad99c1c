"""`supervised` and `distill`: weights from nothing, on base data's labels, or a teacher's soft ones too."""

import numpy as np
import torch
from torch import nn

from cloud.training.child_messages import Made, Order
from cloud.training.documents import Distill, Fitting, Supervised
from cloud.training.recipes import learning_rows, make_bundle, starting
from cloud.training.recipes.base_data import BaseData
from cloud.training.recipes.ending import as_candidate, role_of
from cloud.training.recipes.ground import Answering, answering, base_of, bundle_of, hashes
from cloud.training.recipes.learning_rows import Rows
from cloud.training.recipes.loop import FitTask, fit
from cloud.training.recipes.make_bundle import Ground
from cloud.training.recipes.saying import Saying
from cloud.training.recipes.validating import kept_apart

RANGE_SAMPLES = 512
AVERAGED_STEPS = 500


def supervised(order: Order, out: Saying) -> Made:
    """Raises `Malformed` and `Unknown` for base data or bundles that do not fit, and what `fit` raises."""
    assert isinstance(order.recipe, Supervised)
    return _made(order, out, order.recipe, base_of(order), None, temperature=1.0, soft_share=0.0)


def distill(order: Order, out: Saying) -> Made:
    """The same, with the teacher's calibrated probabilities of each image and its mirror image."""
    recipe = order.recipe
    assert isinstance(recipe, Distill)
    base = base_of(order)
    teacher = answering(bundle_of(order, recipe.teacher, base))
    return _made(
        order, out, recipe, base, teacher, temperature=recipe.temperature,
        soft_share=recipe.soft_share,
    )  # fmt: skip


def fitted(
    network: nn.Module, order: Order, out: Saying, rows: Rows, fitting: Fitting, temperature: float,
    made_from: str,
) -> nn.Module:  # fmt: skip
    """On base data alone; see `loop.fit`."""
    learnt, validate = kept_apart(rows, fitting, temperature)
    return fit(
        FitTask(
            model=network, data=learning_rows.as_batch(learnt), validate=validate,
            loss=learning_rows.loss_of(
                temperature=temperature, bad_day_share=fitting.augment
            ),
            fitting=fitting, checkpoints=order.folder / "checkpoints",
            checkpoint_s=order.checkpoint_s, kept=order.checkpoints_kept,
            average_decay=learning_rows.average_decay(len(learnt), fitting, AVERAGED_STEPS),
            key=order.recipe.model_dump_json(), made_from=made_from,
        ),
        out,
    )  # fmt: skip


def _made(
    order: Order, out: Saying, recipe: Supervised | Distill, base: BaseData,
    teacher: Answering | None, *, temperature: float, soft_share: float,
) -> Made:  # fmt: skip
    torch.manual_seed(recipe.fitting.seed)
    network = starting.NETWORKS[recipe.network](classes=len(base.names))
    rows = learning_rows.of_base(
        base.train.images,
        base.train.labels,
        teacher.probabilities if teacher else None,
        soft_share,
        len(base.names),
    )
    out.said(f"{len(rows)} images of {base.source}")
    out.stop_if_asked()
    made_from = hashes(base, None if teacher is None else teacher.bundle)
    model = fitted(network, order, out, rows, recipe.fitting, temperature, made_from)
    out.stop_if_asked()
    candidate = as_candidate(
        model, name=recipe.name, version=recipe.version, answers_for=(), base_rows=len(rows),
        hyperparameters={recipe.kind: recipe.model_dump(mode="json")},
        ranges=np.ascontiguousarray(base.train.images[:RANGE_SAMPLES]), soft_by=teacher,
    )  # fmt: skip
    ground = Ground(
        base=base, teacher=teacher if role_of(model) == "edge" else None,
        dictionary=None if teacher is None else teacher.bundle.dictionary or None,
    )  # fmt: skip
    return make_bundle.make(candidate, ground, order.folder / "bundle")
