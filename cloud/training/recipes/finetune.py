"""`finetune`: a bundle's own weights, on what came back from the field and a replay of base data.

What was known is kept by the replay: other images in each epoch, with the model's own soft labels (Li
and Hoiem 2016, arXiv:1606.09282); what is new comes from the feedback. The result is a whole bundle:
int8 ranges from both, calibrated on both, its reference as the field looks.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from cloud.feedback.data_file import DataRows, content_hash
from cloud.training.child_messages import Made, Order
from cloud.training.documents import FineTune
from cloud.training.recipes import learning_rows, make_bundle, starting
from cloud.training.recipes.base_data import BaseData
from cloud.training.recipes.ending import as_candidate
from cloud.training.recipes.field import Field, train_and_holdout
from cloud.training.recipes.ground import (
    answering,
    base_of,
    bundle_of,
    check_is_new,
    feedback_of,
    hashes,
)
from cloud.training.recipes.learning_rows import Rows
from cloud.training.recipes.likeness import Likeness, likeness
from cloud.training.recipes.loop import FitTask, Loss, fit
from cloud.training.recipes.make_bundle import Ground
from cloud.training.recipes.saying import Saying
from cloud.training.recipes.turns import Part, Turns, rows_per_epoch
from cloud.training.recipes.validating import kept_apart
from shared.confidence import softmax

RANGE_SAMPLES = 512
MEASURED_ROWS = 2_000
"""Images of base data that batch statistics are put back with."""
AVERAGED_STEPS = 200
"""Fewer than a model from nothing has: this one begins near where it ends."""


def finetune(order: Order, out: Saying) -> Made:
    """Raises `Malformed` for feedback that this model cannot learn from, and what `fit` raises."""
    return finetuned(order, out, feedback_of(order))


def finetuned(order: Order, out: Saying, rows: DataRows) -> Made:
    """The same, with the data set read already."""
    recipe = order.recipe
    assert isinstance(recipe, FineTune)
    base = base_of(order)
    student = bundle_of(order, recipe.student, base)
    check_is_new(recipe.version, student)
    where = f"data set for {recipe.student}"
    train, holdout = train_and_holdout(rows, base.image_shape, len(base.names), where)
    teacher = None if recipe.teacher is None else answering(bundle_of(order, recipe.teacher, base))
    parent = answering(student)
    replay = replayed(base, recipe.replay_rows * recipe.fitting.epochs, recipe.fitting.seed)
    out.said(
        f"{len(train)} samples from the field, {len(holdout)} held out, {len(replay)} of base data"
    )
    network = starting.network_of(
        starting.fp32_graph(student), base.train.images[:MEASURED_ROWS], student.where
    )
    rows_of_both = learning_rows.joined([
        learning_rows.of_field(train, recipe.soft_share),
        learning_rows.of_base(
            base.train.images[replay], base.train.labels[replay],
            lambda images: softmax(parent.logits(images), 1.0), recipe.soft_share, len(base.names),
        ),
    ])  # fmt: skip
    learnt, validate = kept_apart(rows_of_both, recipe.fitting, recipe.temperature)
    turns = turns_of(learnt, recipe)
    loss = _loss(recipe, network, base, train, out)
    out.stop_if_asked()
    fitted = fit(
        FitTask(
            model=network, data=learning_rows.as_batch(learnt), turns=turns, loss=loss,
            validate=validate, fitting=recipe.fitting,
            checkpoints=order.folder / "checkpoints",
            checkpoint_s=order.checkpoint_s, kept=order.checkpoints_kept,
            average_decay=learning_rows.average_decay(
                rows_per_epoch(turns), recipe.fitting, AVERAGED_STEPS
            ),
            key=recipe.model_dump_json(),
            made_from=hashes(base, student, data_set=content_hash(rows)),
        ),
        out,
    )  # fmt: skip
    out.stop_if_asked()
    manifest = student.manifest
    candidate = as_candidate(
        fitted, name=manifest.name, version=recipe.version, answers_for=manifest.answers_for,
        hyperparameters={"finetune": recipe.model_dump(mode="json")}, base_rows=len(replay),
        ranges=mixed(train.images, base.train.images), soft_by=parent if len(replay) else None,
    )  # fmt: skip
    ground = Ground(
        base=base, parent=parent, teacher=teacher, train=train, holdout=holdout,
        data_set=content_hash(rows), dictionary=student.dictionary or None,
    )  # fmt: skip
    return make_bundle.make(candidate, ground, order.folder / "bundle")


def _loss(recipe: FineTune, network: nn.Module, base: BaseData, train: Field, out: Saying) -> Loss:
    """With the replay's images given what has happened to the field's, or any bad day at all."""
    if recipe.imitate == 0:
        return learning_rows.loss_of(
            temperature=recipe.temperature, bad_day_share=recipe.fitting.augment
        )
    alike = likeness(network, base.train.images, train, recipe.fitting.seed)
    out.said(str(alike))
    return learning_rows.loss_of(
        temperature=recipe.temperature, odds=alike.odds,
        bad_day_share=max(imitated(recipe.imitate, alike), recipe.fitting.augment),
    )  # fmt: skip


def imitated(most: float, alike: Likeness) -> float:
    """Share of the replay to shift. A heavy shift is mostly regained by a little of it, and more costs
    clean accuracy; a light one needs more.
    """
    return most * (1 - alike.ordinary) * (1 - alike.changed / 2)


def turns_of(learnt: Rows, recipe: FineTune) -> Turns:
    """Some of the field in each epoch, and where it is more than all epochs show what people labelled
    first; and of base data, whose order is drawn already.
    """
    field, base = (
        torch.from_numpy(np.flatnonzero(which)) for which in (learnt.coarse, ~learnt.coarse)
    )
    drawn = field[
        torch.randperm(len(field), generator=torch.Generator().manual_seed(recipe.fitting.seed))
    ]
    if len(drawn) > recipe.field_rows * recipe.fitting.epochs:
        by_others = torch.from_numpy(~learnt.by_person)[drawn]
        drawn = drawn[torch.argsort(by_others, stable=True)]
    return Part(drawn, recipe.field_rows), Part(base, recipe.replay_rows)


def replayed(base: BaseData, rows: int, seed: int) -> NDArray[np.intp]:
    """Which of the base data's training images, in no order; all of them where `rows` is more."""
    return np.random.default_rng(seed).permutation(len(base.train))[:rows]


def mixed(field: NDArray[np.uint8], base: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """What int8 ranges are measured on: as much of the one as of the other."""
    half = RANGE_SAMPLES // 2
    return np.concatenate([field[:: max(len(field) // half, 1)][:half], base[:half]])
