"""Intervals keep their error rate however often they are looked at; numpy runs thousands at once."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud.rollouts import sequential

RUNS, LOOKS = 2000, 2000
ALPHA = 0.05
FACTORS = sequential.log_factors(0.005)


def boundary(exceeds: Callable[[int, int], bool], looks: int) -> np.ndarray:
    """The fewest successes at which it says so, for each number of trials; they only rise."""
    fewest, found = 0, []
    for trials in range(1, looks + 1):
        while fewest <= trials and not exceeds(fewest, trials):
            fewest += 1
        found.append(fewest)
    return np.array(found)


@pytest.mark.parametrize("p", [0.001, 0.05, 0.3])
def test_a_rate_at_its_bound_is_hardly_ever_called_over_it_at_any_of_2000_looks(p: float):
    rng = np.random.default_rng(1)
    limit = boundary(lambda x, n: sequential.rate_exceeds(x, n, p, ALPHA), LOOKS)
    seen = np.cumsum(rng.random((RUNS, LOOKS)) < p, axis=1)
    wrong = (seen >= limit).any(axis=1).mean()
    assert wrong <= ALPHA


def test_a_fixed_sample_test_would_be_wrong_far_more_often():
    """So the test above can fail: the usual interval, looked at as often."""
    rng = np.random.default_rng(1)
    n = np.arange(1, LOOKS + 1)
    seen = np.cumsum(rng.random((RUNS, LOOKS)) < 0.3, axis=1)
    limit = 0.3 * n + 1.645 * np.sqrt(0.3 * 0.7 * n)
    assert (seen >= limit)[:, 30:].any(axis=1).mean() > 3 * ALPHA


@pytest.mark.parametrize(("wins", "losses"), [(0.03, 0.035), (0.0, 0.005), (0.2, 0.205)])
def test_a_loss_at_its_bound_is_hardly_ever_called_over_it(wins: float, losses: float):
    rng = np.random.default_rng(2)
    drawn = rng.random((RUNS, LOOKS))
    won = np.cumsum(drawn < wins, axis=1)
    lost = np.cumsum(drawn > 1 - losses, axis=1)
    flat = np.arange(1, LOOKS + 1) - won - lost
    seen = [lost * up + won * down + flat * zero for up, down, zero in FACTORS]
    close = np.max(seen, axis=0).max(axis=1) >= -math.log(ALPHA)  # a mean is at most the largest
    wealth = np.mean([np.exp(one[close]) for one in seen], axis=0)
    assert (wealth >= 1 / ALPHA).any(axis=1).sum() <= ALPHA * RUNS
    # the same as the function says, at the last look of some runs
    for run in range(0, RUNS, 100):
        says = sequential.loss_exceeds(
            int(won[run, -1]), int(lost[run, -1]), int(flat[run, -1]), 0.005, ALPHA
        )
        assert says == (np.mean([np.exp(one[run, -1]) for one in seen]) >= 1 / ALPHA)


def test_a_loss_of_two_points_is_seen_soon_enough():
    """Power: the figures that docs/rollouts.md states are made in the same way."""
    rng = np.random.default_rng(3)
    every = 50  # samples from one look to the next
    drawn = rng.multinomial(every, [0.02, 0.04, 0.94], size=(300, 400))
    won, lost, flat = (np.cumsum(drawn[:, :, i], axis=1) for i in range(3))
    logs = [lost * up + won * down + flat * zero for up, down, zero in FACTORS]
    wealth = np.mean([np.exp(np.minimum(one, 600)) for one in logs], axis=0)
    seen = wealth >= 900  # a risk of 0.01, shared by nine criteria
    first = every * np.where(seen.any(axis=1), seen.argmax(axis=1), 400)
    assert np.median(first) < 6_000
    assert np.quantile(first, 0.95) < 12_000


def test_a_sum_with_an_estimated_variance_stays_within_its_radius():
    rng = np.random.default_rng(4)
    steps = np.cumsum((rng.random((RUNS, LOOKS)) < 0.1) - 0.1, axis=1)
    radius = [sequential.radius(0.09 * n, ALPHA) for n in range(1, LOOKS + 1)]
    assert (steps > radius).any(axis=1).mean() <= ALPHA


def test_one_success_excludes_zero_at_any_level():
    assert sequential.rate_exceeds(1, 100_000, 0.0, 1e-12)
    assert sequential.rate(1, 1000, 1e-4).low > 0


def test_without_trials_nothing_is_known():
    assert sequential.rate(0, 0, 0.01) == sequential.Interval(0.0, 1.0)
    assert sequential.loss(0, 0, 0, 0.01) == sequential.Interval(-1.0, 1.0)
    assert not sequential.rate_exceeds(0, 0, 0.0, 0.01)
    assert not sequential.loss_exceeds(0, 0, 0, 0.0, 0.01)


@given(st.integers(0, 5000), st.integers(0, 5000), st.floats(1e-6, 0.4))
def test_an_interval_has_the_rate_in_it_and_agrees_with_the_test(hits, misses, alpha):
    trials = hits + misses
    found = sequential.rate(hits, trials, alpha)
    assert 0 <= found.low <= found.high <= 1
    if trials:
        assert found.low - 1e-9 <= hits / trials <= found.high + 1e-9
        if found.low > 1e-6:
            assert sequential.rate_exceeds(hits, trials, found.low * (1 - 1e-6), alpha)
        assert not sequential.rate_exceeds(hits, trials, min(1.0, found.low + 1e-6), alpha)


@given(*[st.integers(0, 3000)] * 3, st.floats(1e-6, 0.4))
def test_an_interval_of_a_loss_is_around_it_and_the_same_from_the_other_side(
    wins, losses, ties, alpha
):
    found = sequential.loss(wins, losses, ties, alpha)
    turned = sequential.loss(losses, wins, ties, alpha)
    assert -1 <= found.low <= found.high <= 1
    assert math.isclose(found.low, -turned.high, abs_tol=1e-9)
    if wins + losses + ties:
        mean = (losses - wins) / (wins + losses + ties)
        assert found.low - 1e-9 <= mean <= found.high + 1e-9
