import numpy as np
import pytest

from cloud.registry.evaluation.quality import measure_quality, reliability
from cloud.training.calibrate import expected_calibration_error
from shared.confidence import softmax

NAMES = ("a", "b", "c")


def logits_for(winners: list[int], sure: float = 3.0) -> np.ndarray:
    return (sure * np.eye(len(NAMES))[winners]).astype(np.float32)


def measured(winners, labels, slices=(), *, group_rows_min=1, names=NAMES, logits=None):
    return measure_quality(
        logits_for(winners) if logits is None else logits,
        np.array(labels, np.int64),
        tuple(slices),
        names=names,
        temperature=1.0,
        group_rows_min=group_rows_min,
    )


def test_figures_by_hand():
    found = measured([0, 0, 1, 1, 2, 2, 2, 0], [0, 0, 0, 1, 1, 2, 2, 2])
    assert found.metrics["accuracy"] == 5 / 8
    assert found.metrics["recall"] == pytest.approx((2 / 3 + 1 / 2 + 2 / 3) / 3)
    assert found.metrics["precision"] == pytest.approx((2 / 3 + 1 / 2 + 2 / 3) / 3)
    assert found.metrics["worst_class"] == 1 / 2
    assert found.quality.confusion == ((2, 1, 0), (0, 1, 1), (1, 0, 2))


def test_the_area_is_the_mean_over_classes_that_have_rows_beside_others():
    scores = np.array([[3, 0, 0], [1, 2, 0], [0, 2, 1], [2, 1, 0]], np.float32)
    found = measured(None, [0, 1, 1, 0], logits=scores)
    assert found.quality.classes[0].auc == 1.0
    assert found.quality.classes[2].auc is None
    assert found.metrics["auc"] == pytest.approx(
        (found.quality.classes[0].auc + found.quality.classes[1].auc) / 2
    )
    assert "1 of 3 classes have no row" in found.notes[0]


def test_one_class_alone_has_no_area_and_the_reason_is_said():
    found = measured([0, 1], [0, 0])
    assert "auc" not in found.metrics
    assert found.missing["auc"] == "no class has rows both of it and of others"


def test_calibration_error_is_that_of_training():
    rng = np.random.default_rng(3)
    logits = rng.normal(0, 2, (500, 3)).astype(np.float32)
    labels = rng.integers(0, 3, 500)
    found = measured(None, labels, logits=logits)
    assert found.metrics["ece"] == pytest.approx(
        expected_calibration_error(softmax(logits), labels.astype(np.int64)), abs=1e-9
    )


def test_confidence_of_one_lies_in_the_last_bin():
    bins = reliability(np.ones(4, np.float32), np.array([True, True, True, False]))
    assert (bins[-1].rows, bins[-1].accuracy) == (4, 0.75)


def test_temperature_moves_the_calibration_error_and_no_winner():
    winners, labels = [0, 1, 2, 0], [0, 1, 2, 1]
    hot = measure_quality(
        logits_for(winners), np.array(labels), (), names=NAMES, temperature=3.0, group_rows_min=1
    )
    cold = measured(winners, labels)
    assert hot.metrics["ece"] != cold.metrics["ece"]
    assert hot.metrics["accuracy"] == cold.metrics["accuracy"]


def test_slices_with_few_rows_are_listed_and_do_not_count():
    winners, labels = [0, 1, 2, 0, 1, 0], [0, 1, 2, 0, 2, 1]
    slices = ["day"] * 4 + ["night"] * 2
    found = measured(winners, labels, slices, group_rows_min=3)
    assert found.metrics["worst_slice"] == 1.0
    assert [(one.name, one.rows, one.accuracy, one.counts) for one in found.quality.slices] == [
        ("day", 4, 1.0, True), ("night", 2, 0.0, False),
    ]  # fmt: skip
    assert "worst_slice: 1 of 2 have fewer than 3 rows; they are listed and do not count" in (
        found.notes
    )


def test_classes_with_few_rows_do_not_count_as_the_worst():
    found = measured([0, 0, 0, 2], [0, 0, 0, 1], group_rows_min=2)
    assert found.metrics["worst_class"] == 1.0


def test_without_slices_or_with_few_rows_the_worst_is_missing_with_its_reason():
    found = measured([0, 1], [0, 1], group_rows_min=5)
    assert found.missing["worst_slice"] == "the data set has no slices"
    assert found.missing["worst_class"] == "no class has 5 rows"
    found = measured([0, 1], [0, 1], ["x", "y"], group_rows_min=5)
    assert found.missing["worst_slice"] == "no slice has 5 rows"


def test_answers_that_are_not_finite_give_no_figures():
    logits = logits_for([0, 1, 2])
    logits[1, 0] = np.nan
    found = measured(None, [0, 1, 2], logits=logits)
    assert found.metrics == {}
    assert found.missing["accuracy"] == "1 of 3 answers hold NaN or infinity"


def test_logits_that_overflow_their_temperature_give_no_figures():
    logits = logits_for([0, 1, 2], sure=3e38)
    found = measure_quality(
        logits, np.array([0, 1, 2]), (), names=NAMES, temperature=0.2, group_rows_min=1
    )
    assert found.metrics == {}


def test_a_class_that_is_never_answered_counts_as_no_hit():
    found = measured([0, 0, 1, 1], [0, 2, 1, 2])
    assert found.quality.classes[2].precision is None
    assert found.quality.classes[2].f1 == 0.0
    assert found.metrics["f1"] == pytest.approx((2 / 3 + 2 / 3 + 0) / 3)
