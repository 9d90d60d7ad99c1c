"""A threshold from what came back: what it promises holds, and too little is refused in words."""

import numpy as np
import pytest

from cloud.feedback.answers import AnswerRows
from cloud.learning.refit import fit, samples_min, thinned
from shared.errors import Conflict

EPSILON, DELTA = 0.01, 0.05


def stream(seed: int, count: int, before: float, audit: float) -> AnswerRows:
    """What comes back of `count` samples of devices that escalate below `before`: confidence is
    uniform, and the edge is wrong, where the cloud is right, with probability (1 - confidence) / 5.
    """
    rng = np.random.default_rng(seed)
    confidence = rng.random(count)
    wrong = rng.random(count) < (1 - confidence) / 5
    shares = np.where(confidence < before, 1.0, audit)
    sent = rng.random(count) < shares
    ones = np.zeros(int(sent.sum()), np.int64)
    return AnswerRows(
        confidence[sent], wrong[sent].astype(np.int64), ones, ones, np.ones(len(ones), np.uint8),
        shares[sent],
    )  # fmt: skip


def lost_at(threshold: float) -> float:
    """True share of samples that stay and are lost: the integral of (1 - c) / 5 above it."""
    return (1 - min(threshold, 1.0)) ** 2 / 10


def test_what_is_promised_holds_whatever_the_devices_sent() -> None:
    violated = 0
    for seed in range(50):
        found = fit(stream(seed, 20_000, before=0.6, audit=0.1), EPSILON, DELTA)
        violated += lost_at(found.confidence_min) > EPSILON
    assert violated <= 6  # 2.5 are expected at most; 7 come by chance once in 80 times


def test_the_escalated_share_is_of_all_samples_and_not_of_those_that_came() -> None:
    found = fit(stream(0, 40_000, before=0.6, audit=0.1), EPSILON, DELTA)
    assert found.escalated_share == pytest.approx(found.confidence_min, abs=0.03)


def test_without_thinning_escalations_would_count_too_much() -> None:
    shares = np.array([1.0] * 1000 + [0.1] * 1000)
    kept = thinned(shares)
    assert 60 < kept[:1000].sum() < 140
    assert kept[1000:].all()


def test_so_many_samples_without_a_loss_are_needed() -> None:
    assert samples_min(EPSILON, DELTA) == 299
    assert samples_min(0.005, DELTA) == 598


def test_too_few_samples_are_refused_in_words() -> None:
    with pytest.raises(Conflict, match="can only say 100% escalation") as refused:
        fit(stream(0, 2000, before=0.6, audit=0.1), EPSILON, DELTA)
    assert "it takes 299" in str(refused.value)


def test_of_nothing_nothing_is_fitted() -> None:
    with pytest.raises(Conflict, match="0 samples"):
        fit(stream(0, 0, before=0.6, audit=0.1), EPSILON, DELTA)


def test_a_model_that_is_sure_and_wrong_gets_no_threshold() -> None:
    rows = stream(0, 20_000, before=0.6, audit=0.1)
    wrong = AnswerRows(
        np.full(len(rows), 0.99), np.ones(len(rows), np.int64), rows.cloud_labels, rows.labels,
        rows.sources, rows.shares,
    )  # fmt: skip
    with pytest.raises(Conflict, match="a new model is needed"):
        fit(wrong, EPSILON, DELTA)


def test_where_the_cloud_is_wrong_too_nothing_is_lost_on_the_edge() -> None:
    rows = stream(0, 20_000, before=0.6, audit=0.1)
    by_people = AnswerRows(
        rows.edge_confidence, rows.edge_labels, rows.cloud_labels, np.full(len(rows), 7), rows.sources,
        rows.shares,
    )  # fmt: skip
    found = fit(by_people, EPSILON, DELTA)
    assert found.confidence_min == pytest.approx(
        float(np.float32(rows.edge_confidence.min())), abs=1e-3
    )


def test_the_same_rows_give_the_same_threshold() -> None:
    rows = stream(3, 20_000, before=0.6, audit=0.1)
    assert fit(rows, EPSILON, DELTA) == fit(rows, EPSILON, DELTA)
