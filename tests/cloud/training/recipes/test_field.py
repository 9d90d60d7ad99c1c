"""What feedback a model can learn from, and what it stands for."""

from dataclasses import replace

import numpy as np
import pytest

from cloud.feedback.data_file import DataRows
from cloud.training.recipes.field import SHARE_MIN, Field, train_and_holdout
from shared.errors import Malformed
from tests.cloud.training.recipes.materials import feedback

SHAPE = (28, 28)


def split(rows: DataRows) -> tuple[Field, Field]:
    return train_and_holdout(rows, SHAPE, 3, "data")


def test_what_is_held_out_is_not_trained_on() -> None:
    rows = feedback()
    train, holdout = split(rows)
    assert (len(train), len(holdout)) == (180, 60)
    assert np.array_equal(holdout.labels, rows.labels[rows.holdout])


def bad(**changed: object) -> DataRows:
    return replace(feedback(), **changed)


def one_class() -> DataRows:
    rows = feedback()
    return replace(rows, labels=np.where(rows.holdout, rows.labels, 1))


def clash() -> DataRows:
    rows = feedback()
    images, labels = rows.inputs.copy(), rows.labels.copy()
    images[8], labels[8] = images[0], (labels[0] + 1) % 3
    return replace(rows, inputs=images, labels=labels)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (feedback(0), "has no samples"),
        (bad(inputs=feedback().inputs[:, :20]), r"uint8\[240, 20, 28\], the model takes"),
        (bad(inputs=feedback().inputs.astype(np.float32)), "inputs are float32"),
        (bad(soft=np.full((240, 4), 0.25, np.float32)), r"soft labels are \[240, 4\]"),
        (bad(labels=feedback().labels + 1), r"labels 1\.\.3; the model has 0\.\.2"),
        (bad(soft=feedback().soft * np.float32(np.nan)), "no probabilities"),
        (bad(soft=feedback().soft * np.float32(-1)), "no probabilities"),
        (bad(soft=feedback().soft / 2), "do not sum to 1"),
        (bad(shares=np.zeros(240, np.float32)), "shares lie outside"),
        (bad(shares=np.full(240, 1.5, np.float32)), "shares lie outside"),
        (bad(sources=np.full(240, 3, np.uint8)), "sources go to 3"),
        (bad(holdout=np.ones(240, np.bool_)), "0 samples to train on"),
        (one_class(), "all 180 samples to train on have label 1"),
        (clash(), "1 samples that are the same picture have other labels by people"),
    ],
)  # fmt: skip
def test_feedback_that_cannot_teach_is_refused_in_words(rows: DataRows, words: str) -> None:
    with pytest.raises(Malformed, match=words):
        split(rows)


def test_the_cloud_may_contradict_itself() -> None:
    rows = clash()
    train, holdout = split(replace(rows, sources=np.ones(240, np.uint8)))
    assert len(train) + len(holdout) == 240


def test_a_sample_stands_for_as_many_as_its_share_says() -> None:
    train, _ = split(feedback())
    rare = train.weights[train.shares < 1]
    often = train.weights[train.shares == 1]
    assert np.allclose(rare.min(), 5 * often.max())
    assert np.isclose(train.weights.mean(), 1)


def test_no_sample_outweighs_all_others() -> None:
    shares = np.ones(240, np.float32)
    shares[1] = 1e-9
    train, _ = split(bad(shares=shares))
    assert train.shares.min() == SHARE_MIN


def test_a_fair_draw_has_each_kind_as_often_as_devices_see_it() -> None:
    rng = np.random.default_rng(5)
    sure = rng.random(20_000) < 0.7  # 70 % of what devices see; a fifth of it is audited
    sent = ~sure | (rng.random(20_000) < 0.2)
    count = int(sent.sum())
    field = Field(
        np.zeros((count, 2, 2), np.uint8), sure[sent].astype(np.int64),
        np.zeros((count, 2), np.float32), np.ones(count, np.uint8),
        np.where(sure[sent], 0.2, 1.0),
    )  # fmt: skip
    assert field.labels.mean() < 0.35
    drawn = field.fair_draw(np.random.default_rng(1))
    assert field.labels[drawn].mean() == pytest.approx(0.7, abs=0.02)
    assert np.average(field.labels, weights=field.weights) == pytest.approx(0.7, abs=0.02)


def test_a_picture_that_came_often_is_measured_once_by_a_persons_label() -> None:
    images = np.zeros((5, 2, 2), np.uint8)
    images[3:] = 9
    field = Field(
        images, np.array([1, 1, 2, 0, 0]), np.full((5, 3), 1 / 3, np.float32),
        np.array([1, 1, 0, 1, 1], np.uint8), np.ones(5),
    )  # fmt: skip
    assert np.flatnonzero(field.once).tolist() == [2, 3]
