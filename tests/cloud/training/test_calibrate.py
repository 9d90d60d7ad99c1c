import numpy as np
import pytest
from numpy.typing import NDArray

from cloud.training import calibrate
from shared.confidence import softmax

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]


def drawn(count: int, temperature: float, seed: int) -> tuple[Floats, Labels]:
    """Logits [N, 5], and labels that follow them at `temperature`."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 4, (count, 5)).astype(np.float32)
    chances = softmax(logits, temperature)
    labels = (rng.random((count, 1)) < chances.cumsum(1)).argmax(1)
    return logits, labels.astype(np.int64)


@pytest.mark.parametrize("truth", [0.6, 1.0, 2.5])
def test_the_temperature_that_the_labels_follow_is_found(truth: float) -> None:
    logits, labels = drawn(20_000, truth, seed=3)
    assert calibrate.temperature(logits, labels) == pytest.approx(truth, rel=0.05)


def test_calibrated_answers_have_next_to_no_calibration_error_and_sure_ones_have() -> None:
    logits, labels = drawn(20_000, 2.5, seed=4)
    error = calibrate.expected_calibration_error
    assert error(softmax(logits, 2.5), labels) < 0.01
    assert error(softmax(logits, 1.0), labels) > 0.05
    certain = np.eye(5, dtype=np.float32)[labels]
    assert error(certain, labels) == 0
    assert error(np.roll(certain, 1, axis=1), labels) == 1


def test_the_likelihood_of_what_was_ruled_out_is_bounded() -> None:
    nothing = np.zeros((1, 5), np.float32)
    assert calibrate.negative_log_likelihood(nothing, np.array([0])) == pytest.approx(27.6, abs=0.1)


def test_fusion_follows_whoever_knows() -> None:
    logits, labels = drawn(3_000, 1.0, seed=5)
    knows, guesses = softmax(logits), softmax(logits[::-1] * 0.3)
    weights = [
        calibrate.fusion_weight(*pair, labels)
        for pair in ((knows, guesses), (knows, knows), (guesses, knows))
    ]
    assert all(0 <= weight <= 1 for weight in weights)
    assert weights[0] < 0.1
    assert weights[2] > 0.9


def test_fusion_takes_from_both_when_each_knows_a_part() -> None:
    logits, labels = drawn(3_000, 1.0, seed=6)
    one, other = logits.copy(), logits.copy()
    one[:, :2] = 0
    other[:, 3:] = 0
    assert 0.2 < calibrate.fusion_weight(softmax(one), softmax(other), labels) < 0.8


# The world of the simulation: confidence is uniform in 0..1, and a kept sample is lost with
# probability 0.05 (1 - confidence). So P(kept and lost) at threshold t is 0.025 (1 - t)^2.
def world(count: int, rng: np.random.Generator) -> tuple[Floats, NDArray[np.bool_]]:
    confidence = rng.random(count, dtype=np.float32)
    return confidence, rng.random(count) < 0.05 * (1 - confidence)


def risk(threshold: float) -> float:
    return 0.025 * max(1 - threshold, 0) ** 2


def test_a_threshold_breaks_its_guarantee_no_more_often_than_it_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(calibrate, "GRID", 100)
    rng, epsilon, delta, draws = np.random.default_rng(11), 0.005, 0.1, 400
    found = [
        calibrate.certified_threshold(*world(2_000, rng), epsilon, delta) for _ in range(draws)
    ]
    broken = sum(risk(threshold) > epsilon for threshold in found) / draws
    slack = 3 * (delta * (1 - delta) / draws) ** 0.5
    assert broken <= delta + slack
    assert broken > 0  # it is no guarantee by asking for too much
    assert np.median(found) < 0.8  # epsilon is spent at 0.553


def test_few_samples_certify_nothing_but_escalating_all() -> None:
    confidence = np.linspace(0, 1, 300, dtype=np.float32)
    never_lost = np.zeros(300, np.bool_)
    least = calibrate.certified_threshold(confidence, never_lost, 0.003, 0.05)
    assert least == calibrate.ESCALATE_ALL > 1
    # 998 samples without a loss are the fewest that can: 0.997^998 <= 0.05 < 0.997^997
    for count, expected in ((997, calibrate.ESCALATE_ALL), (998, 0.0)):
        confidence = np.linspace(0, 1, count, dtype=np.float32)
        never_lost = np.zeros(count, np.bool_)
        assert calibrate.certified_threshold(confidence, never_lost, 0.003, 0.05) == expected


def test_a_loss_among_the_surest_ends_the_sequence_there() -> None:
    confidence = np.linspace(0, 1, 3_000, dtype=np.float32)
    lost = confidence < 0.5
    certified = calibrate.certified_threshold(confidence, lost, 0.003, 0.05)
    assert 0.49 < certified <= 0.5
    lost |= confidence > 0.99
    assert calibrate.certified_threshold(confidence, lost, 0.003, 0.05) > 0.99


def test_what_lies_on_the_threshold_is_kept_so_it_counts() -> None:
    confidence, lost = np.full(2_000, 0.9, np.float32), np.ones(2_000, np.bool_)
    assert calibrate.certified_threshold(confidence, lost, 0.01, 0.05) == calibrate.ESCALATE_ALL
    edge = np.array([[0.75, 0.25], [0.5, 0.5]], np.float32)
    row = calibrate.measured("x", 0.75, None, edge, edge, np.array([0, 0]), 1.0)
    assert row.escalated_share == 0.5


def test_a_row_of_the_table_says_what_it_guarantees_and_what_it_costs() -> None:
    logits, labels = drawn(4_000, 1.0, seed=7)
    edge, cloud = softmax(logits, 2.0), np.eye(5, dtype=np.float32)[labels]
    row = calibrate.threshold(
        "tight", edge, cloud, labels, cloud_weight=0.8, epsilon=0.01, delta=0.05
    )
    assert row.guarantee is not None
    assert (row.guarantee.epsilon, row.guarantee.delta, row.guarantee.samples) == (0.01, 0.05, 4000)
    assert "with probability 0.95 at most 1.00% of samples" in row.guarantee.statement
    kept = edge.max(1) >= row.confidence_min
    assert row.escalated_share == pytest.approx(1 - kept.mean())
    assert (kept & (edge.argmax(1) != labels)).mean() <= 0.01
    assert row.hybrid_accuracy >= 0.99
    assert 0.5 < row.escalated_share < 0.8


def test_escalating_everything_answers_with_the_pool_and_nothing_with_the_edge() -> None:
    logits, labels = drawn(1_000, 1.0, seed=8)
    edge, cloud = softmax(logits), np.eye(5, dtype=np.float32)[labels]
    every = calibrate.measured("all", calibrate.ESCALATE_ALL, None, edge, cloud, labels, 1.0)
    none = calibrate.measured("none", 0.0, None, edge, cloud, labels, 1.0)
    assert (every.escalated_share, every.hybrid_accuracy) == (1, 1)
    assert none.escalated_share == 0
    assert none.hybrid_accuracy == pytest.approx((edge.argmax(1) == labels).mean())
