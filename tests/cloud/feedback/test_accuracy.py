"""The estimate is unbiased and its interval covers, where the plain average is far off."""

import numpy as np
import pytest

from cloud.feedback.accuracy import Stratum, accuracy


def test_without_labels_there_is_no_estimate():
    assert accuracy([]) is None
    assert accuracy([Stratum(1.0, 10, 0, 0)]) is None


def test_a_stratum_counts_by_what_it_stands_for():
    found = accuracy([Stratum(0.05, 50, 50, 49), Stratum(1.0, 100, 100, 40)])
    assert found.estimate == pytest.approx((1000 * 0.98 + 100 * 0.4) / 1100)
    assert (found.audits, found.labelled, found.sent) == (50, 150, 150)


def test_labelling_one_kind_more_eagerly_moves_nothing():
    even = accuracy([Stratum(0.05, 50, 50, 40), Stratum(1.0, 100, 100, 40)])
    eager = accuracy([Stratum(0.05, 50, 50, 40), Stratum(1.0, 100, 10, 4)])
    assert eager.estimate == pytest.approx(even.estimate)
    assert eager.high - eager.low > even.high - even.low


def test_none_wrong_is_not_certain():
    found = accuracy([Stratum(0.05, 10, 10, 10)])
    assert found.estimate == 1
    assert found.low < 0.8


def test_a_kind_that_nobody_labelled_may_be_all_wrong():
    found = accuracy([Stratum(0.05, 50, 0, 0), Stratum(1.0, 100, 100, 90)])
    assert found.estimate == pytest.approx(0.9)
    assert found.low < 0.2


@pytest.mark.parametrize("sure_accuracy", [0.10, 0.93, 0.99])
def test_the_interval_covers(sure_accuracy):
    """2,000 inputs, a fifth escalated, of the rest 10% audited; half of what came is labelled."""
    rng = np.random.default_rng(7)
    truth = 0.8 * sure_accuracy + 0.2 * 0.6
    covered, errors, rounds = 0, [], 1000
    for _ in range(rounds):
        escalated = rng.random(2000) < 0.2
        right = rng.random(2000) < np.where(escalated, 0.6, sure_accuracy)
        strata = []
        for share, mine in ((1.0, escalated), (0.1, ~escalated)):
            sent = right[mine & (rng.random(2000) < share)]
            labelled = sent[rng.random(len(sent)) < 0.5]
            strata.append(Stratum(share, len(sent), len(labelled), int(labelled.sum())))
        found = accuracy(strata)
        covered += found.low <= truth <= found.high
        errors.append(found.estimate - truth)
    assert abs(np.mean(errors)) < 0.004
    assert covered / rounds >= 0.935
