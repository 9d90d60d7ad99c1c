"""Calibration on base data and the field together."""

from dataclasses import replace

import numpy as np
import pytest

from cloud.training.recipes import calibrating
from cloud.training.recipes.calibrating import Sight
from cloud.training.recipes.field import Field
from shared.confidence import softmax

CLASSES = 4


def answers(count: int, skill: float, labels: np.ndarray, seed: int) -> np.ndarray:
    logits = np.random.default_rng(seed).normal(0, 1, (count, CLASSES)).astype(np.float32)
    logits[np.arange(count), labels] += skill
    return logits


LABELS = np.random.default_rng(1).integers(0, CLASSES, 4_000)
BASE = Sight(answers(4_000, 3.5, LABELS, 2), softmax(answers(4_000, 5.0, LABELS, 3)), LABELS)


def field(count: int = 2_000, *, by_person: bool = False, shares: float = 1.0) -> Field:
    labels = np.random.default_rng(4).integers(0, CLASSES, count)
    soft = softmax(answers(count, 4.0, labels, 5))
    return Field(
        np.zeros((count, 2, 2), np.uint8), labels if by_person else soft.argmax(1), soft,
        np.full(count, 0 if by_person else 1, np.uint8), np.full(count, shares),
    )  # fmt: skip


def field_logits(count: int = 2_000, skill: float = 1.0) -> np.ndarray:
    labels = np.random.default_rng(4).integers(0, CLASSES, count)
    return answers(count, skill, labels, 6)


def default_of(calibration: object) -> object:
    return next(t for t in calibration.thresholds if t.name == calibration.default_threshold)


def test_a_model_that_never_escalates_has_no_thresholds() -> None:
    assert calibrating.plain(BASE).thresholds == ()


def test_the_statement_says_what_the_labels_were() -> None:
    both = calibrating.escalating(BASE, field(), field_logits())
    said = default_of(both).guarantee.statement
    assert "4000 samples of base data with true labels" in said
    assert "2000 from the field, 0 labelled by people and 2000 by the cloud" in said
    people = calibrating.escalating(BASE, field(by_person=True), field_logits())
    assert "2000 labelled by people and 0 by the cloud" in default_of(people).guarantee.statement
    assert default_of(both).guarantee.samples == 6_000


def test_a_field_that_the_model_gets_wrong_raises_what_escalates() -> None:
    alone = default_of(calibrating.escalating(BASE, None, None))
    both = default_of(calibrating.escalating(BASE, field(), field_logits()))
    assert both.confidence_min > alone.confidence_min
    assert both.escalated_share > alone.escalated_share


def test_where_only_the_cloud_labelled_a_loss_is_that_they_differ() -> None:
    samples, logits = field(), field_logits(skill=3.0)
    both = calibrating.escalating(BASE, samples, logits)
    threshold = default_of(both)
    edge = softmax(np.concatenate([BASE.logits, logits]), both.temperature)
    cloud = np.concatenate([BASE.cloud, samples.soft]).argmax(1)
    labels = np.concatenate([BASE.labels, samples.labels])
    kept = edge.max(1) >= threshold.confidence_min
    lost = kept & (edge.argmax(1) != labels) & (cloud == labels)
    assert lost.mean() <= threshold.guarantee.epsilon
    assert kept[4_000:].any()


def test_a_cloud_that_nobody_asked_is_taken_for_right() -> None:
    asked = default_of(calibrating.escalating(BASE, None, None))
    unasked = calibrating.escalating(replace(BASE, cloud=None), None, None)
    assert default_of(unasked).confidence_min >= asked.confidence_min
    assert "taken for right on all of them" in default_of(unasked).guarantee.statement
    assert unasked.fusion_cloud_weight == 1.0


def test_samples_that_were_often_sent_are_thinned_before_the_exact_test() -> None:
    samples = field()
    shares = np.where(np.arange(2_000) % 2 == 0, 1.0, 0.1)
    thinned = calibrating.escalating(BASE, replace(samples, shares=shares), field_logits())
    drawn = default_of(thinned).guarantee.samples - 4_000
    assert 1_000 < drawn < 1_200  # every audit, a tenth of what escalated


def test_an_empty_holdout_changes_nothing() -> None:
    none = field().taken(np.zeros(2_000, np.bool_))
    empty = np.zeros((0, CLASSES), np.float32)
    assert calibrating.escalating(BASE, none, empty) == calibrating.escalating(BASE, None, None)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_promised_holds_on_fresh_samples(seed: int) -> None:
    threshold = default_of(calibrating.escalating(BASE, None, None))
    labels = np.random.default_rng(50 + seed).integers(0, CLASSES, 20_000)
    temperature = calibrating.plain(BASE).temperature
    edge = softmax(answers(20_000, 3.5, labels, 60 + seed), temperature)
    cloud = softmax(answers(20_000, 5.0, labels, 70 + seed))
    kept = edge.max(1) >= threshold.confidence_min
    lost = kept & (edge.argmax(1) != labels) & (cloud.argmax(1) == labels)
    assert lost.mean() <= 0.005
