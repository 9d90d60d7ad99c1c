"""Distances without drift are about nothing, and chance is chance."""

import math

import numpy as np
import pytest
from scipy.stats import chi2

from cloud.monitoring.drift.distance import binomial_chance, chance, distances
from cloud.monitoring.drift.reference import EXTRAS, of_sketches
from shared.bundle.manifest import Sketch

SKETCH = Sketch(feature="input_mean", edges=tuple(range(15)), counts=(300,) * 16)
REFERENCE = of_sketches("m", "1.0.0", (SKETCH,))


def rows(samples, count, shares=None, seed=0):
    drawn = np.random.default_rng(seed).multinomial(samples, shares or [1 / 16] * 16, count)
    return np.hstack([drawn, np.zeros((count, EXTRAS))]).astype(float)


@pytest.mark.parametrize("samples", [100, 200, 1000])
def test_without_drift_psi_is_nothing_on_average_however_few_samples(samples):
    found = distances(REFERENCE, rows(samples, 2000))
    psi = found.psi[:, 0]
    # what is under nothing is shown as nothing, so the mean is a third of the spread above it
    assert psi.mean() < 0.6 * math.sqrt(2 * 15) / samples
    assert np.quantile(psi, 0.999) < 0.33


@pytest.mark.parametrize("samples", [25, 50, 200])
def test_without_drift_psi_is_as_often_over_nothing_as_under_it(samples):
    found = distances(REFERENCE, rows(samples, 2000))
    assert 0.4 < (found.psi[:, 0] == 0).mean() < 0.65


def test_few_samples_must_show_more_for_an_alarm():
    few, many = distances(REFERENCE, rows(50, 2000)), distances(REFERENCE, rows(5000, 2000))
    assert (few.psi_least[:, 0] == 0).mean() > (few.psi[:, 0] == 0).mean() + 0.2
    assert many.psi_least == pytest.approx(many.psi, abs=1e-3)


def test_the_test_is_wrong_as_often_as_it_says():
    found = distances(REFERENCE, rows(200, 4000))
    p = np.asarray([
        chance(g, int(k)) for g, k in zip(found.g[:, 0], found.freedom[:, 0], strict=True)
    ])  # fmt: skip
    assert 0.03 < (p < 0.05).mean() < 0.07
    assert 0.0 < (p < 0.005).mean() < 0.01


def test_a_shift_is_seen_by_all_three():
    shares = [0.2] + [0.8 / 15] * 15
    found = distances(REFERENCE, rows(200, 50, shares))
    assert np.median(found.psi) == pytest.approx(0.18, abs=0.06)
    assert np.median(found.ks) == pytest.approx(0.1375, abs=0.04)
    assert chance(float(np.median(found.g)), 15) < 1e-3


def test_a_feature_that_nobody_counted_is_at_no_distance():
    found = distances(REFERENCE, np.zeros((1, REFERENCE.width)))
    assert (found.psi[0, 0], found.ks[0, 0], found.g[0, 0]) == (0.0, 0.0, 0.0)


def test_what_lies_beyond_all_that_was_seen_is_far():
    sketch = Sketch(feature="input_low", edges=(0.0, 1.0), counts=(0, 4999, 1))
    reference = of_sketches("m", "1.0.0", (sketch,))
    found = distances(reference, np.asarray([[0, 0, 200, *[0] * EXTRAS]], float))
    assert found.psi[0, 0] > 5


@pytest.mark.parametrize("freedom", [1, 2, 3, 15, 16, 32])
@pytest.mark.parametrize("statistic", [0.1, 5.0, 60.0, 400.0])
def test_chi_squared_is_scipy_s(statistic, freedom):
    assert chance(statistic, freedom) == pytest.approx(chi2.sf(statistic, freedom), rel=1e-9)
    assert chance(0.0, freedom) == 1.0
    assert chance(statistic, 0) == 1.0


def test_a_binomial_tail_is_not_underestimated():
    exact = sum(math.comb(200, k) * 0.005**k * 0.995 ** (200 - k) for k in range(12, 201))
    assert exact <= binomial_chance(12, 200, 0.005) < 1e-6
    assert binomial_chance(1, 200, 0.005) == 1.0
    assert binomial_chance(0, 0, 0.005) == 1.0
    assert binomial_chance(200, 200, 0.005) < 1e-300
