"""What fine-tuning shows of a feedback that is more than all epochs have time for."""

from typing import TYPE_CHECKING

import numpy as np
import pytest

from cloud.training.documents import FineTune, FineTuning

if TYPE_CHECKING:
    from cloud.training.recipes.learning_rows import Rows

pytestmark = pytest.mark.train

PEOPLE, FEEDBACK, BASE = 15, 100, 40
RECIPE = FineTune(
    version="1.1.0", student="edge@1.0.0", teacher="cloud@1.0.0", base="fashion-mnist",
    fitting=FineTuning(epochs=2), field_rows=10,
)  # fmt: skip


def learnt() -> "Rows":
    """The last of the feedback have people's labels; base data comes after it."""
    from cloud.training.recipes.learning_rows import Rows

    rows = FEEDBACK + BASE
    number = np.arange(rows)
    by_person = (number >= FEEDBACK - PEOPLE) & (number < FEEDBACK)
    return Rows(
        images=np.zeros((rows, 4, 4), np.uint8), labels=number % 2,
        soft=np.full((rows, 2, 2), 0.5, np.float32),
        soft_share=np.zeros(rows, np.float32), coarse=number < FEEDBACK,
        weight=np.ones(rows, np.float32), by_person=by_person,
    )  # fmt: skip


def test_what_people_labelled_is_shown_first() -> None:
    from cloud.training.recipes.finetune import turns_of

    field, _ = turns_of(learnt(), RECIPE)
    shown = {int(row) for epoch in range(RECIPE.fitting.epochs) for row in field.of_epoch(epoch)}
    assert len(shown) == 20
    assert set(range(FEEDBACK - PEOPLE, FEEDBACK)) < shown


def test_the_rest_is_drawn_by_the_seed() -> None:
    from cloud.training.recipes.finetune import turns_of

    other = RECIPE.model_copy(update={"fitting": FineTuning(epochs=2, seed=1)})
    one, again, another = (
        turns_of(learnt(), recipe)[0].rows.tolist() for recipe in (RECIPE, RECIPE, other)
    )
    assert one == again != another
    assert sorted(one) == sorted(another) == list(range(FEEDBACK))


def test_where_all_are_shown_chance_alone_orders_them() -> None:
    from cloud.training.recipes.finetune import turns_of

    enough = RECIPE.model_copy(update={"field_rows": FEEDBACK // RECIPE.fitting.epochs})
    field, _ = turns_of(learnt(), enough)
    assert min(field.of_epoch(1).tolist()) < FEEDBACK - PEOPLE  # not people's alone came first
    assert set(range(FEEDBACK - PEOPLE, FEEDBACK)) & set(field.of_epoch(1).tolist())
