"""How far windows are from the reference, and whether chance would do that. Pure.

- Population stability index: the symmetric Kullback-Leibler divergence of binned distributions
  (Siddiqi, Credit Risk Scorecards, 2006). Under no drift it is on average (k - 1)(1/n + 1/m) for k
  bins, n and m samples (Yurdakul, Statistical Properties of PSI, 2018), less what smoothing takes:
  that is subtracted, so without drift windows of any size read nothing on average. Under drift a
  small one reads less than there is: of 18 bins, 200 samples nine tenths of it, 50 two thirds. An
  alarm opens by PSI less all of the former: few samples must show the more of it.
- Kolmogorov-Smirnov distance at the bins' edges.
- The chance of it by a G-test of homogeneity with k - 1 degrees of freedom (Sokal, Rohlf, Biometry,
  2012, 17.4).
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cloud.monitoring.drift.reference import Feature, Reference

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Distances:
    """Of N windows over F features, each [N, F]; a feature that nobody counted is at distance 0."""

    samples: Floats
    psi: Floats
    psi_least: Floats
    """Less what smoothing takes, too: by what few samples show no alarm opens."""
    ks: Floats
    g: Floats
    """The G statistic."""
    freedom: Floats


def distances(reference: Reference, rows: NDArray[np.floating]) -> Distances:
    """`rows`: windows [N, width of the reference], fractions of samples allowed."""
    shape = (len(rows), len(reference.features))
    found = Distances(*(np.zeros(shape) for _ in range(6)))
    for place, feature in enumerate(reference.features):
        bins = np.asarray(rows[:, feature.begin : feature.end], np.float64)
        observed = np.add.reduceat(bins, feature.pooled, axis=1)
        _feature(feature, observed, found, place)
    return found


def leaning(feature: Feature, rows: Floats) -> Floats:
    """How much each of the windows [N, width] leans from the reference to what they are all together:
    the logarithm of the likelihood ratio [N].
    """
    bins = np.add.reduceat(rows[:, feature.begin : feature.end], feature.pooled, axis=1)
    p, q = _smoothed(feature, bins.sum(axis=0, keepdims=True))
    return np.asarray(bins @ np.log(q[0] / p))


def _smoothed(feature: Feature, observed: Floats) -> tuple[Floats, Floats]:
    """Shares of the reference, and of windows by Jeffreys' half a sample a bin, spread as it is."""
    n, m = observed.sum(axis=1, keepdims=True), feature.expected.sum()
    bins = observed.shape[1]
    smooth = 0.5 * bins
    p = (feature.expected + 0.5) / (m + 0.5 * bins)
    return p, (observed + smooth * p) / (n + smooth)


def _feature(feature: Feature, observed: Floats, found: Distances, place: int) -> None:
    n, m = observed.sum(axis=1, keepdims=True), feature.expected.sum()
    bins = observed.shape[1]
    n_safe = np.maximum(n, 1.0)
    p, q = _smoothed(feature, observed)
    by_chance = ((bins - 1) * (1 / n_safe + 1 / m))[:, 0]
    smoothed = (n_safe / (n_safe + 0.5 * bins))[:, 0] ** 2
    raw = ((q - p) * np.log(q / p)).sum(axis=1)
    psi, psi_least = raw - by_chance * smoothed, raw - by_chance
    ks = np.abs(np.cumsum(observed / n_safe, axis=1) - np.cumsum(feature.expected / m)).max(axis=1)
    both = observed + feature.expected
    share = n / (n + m)
    with np.errstate(divide="ignore", invalid="ignore"):
        ours = np.where(observed > 0, observed * np.log(observed / (both * share)), 0.0)
        theirs = np.where(
            feature.expected > 0,
            feature.expected * np.log(feature.expected / (both * (1 - share))),
            0.0,
        )
    counted = n[:, 0] > 0
    found.samples[:, place] = n[:, 0]
    found.psi[:, place] = np.where(counted, np.maximum(psi, 0.0), 0.0)
    found.psi_least[:, place] = np.where(counted, np.maximum(psi_least, 0.0), 0.0)
    found.ks[:, place] = np.where(counted, ks, 0.0)
    g = 2 * (ours.sum(axis=1) + theirs.sum(axis=1))
    found.g[:, place] = np.where(counted, np.maximum(g, 0.0), 0.0)
    found.freedom[:, place] = np.maximum((both > 0).sum(axis=1) - 1, 0)


def chance(statistic: float, freedom: int) -> float:
    """Probability that chi-squared with so many degrees of freedom is larger (Abramowitz, Stegun,
    26.4.4 and 26.4.5; exact).
    """
    if freedom < 1 or statistic <= 0:
        return 1.0
    half = statistic / 2
    if freedom % 2:
        term, total = math.sqrt(half / math.pi) * 2, 0.0
        for step in range(1, freedom // 2 + 1):
            total += term
            term *= half / (step + 0.5)
        return math.erfc(math.sqrt(half)) + math.exp(-half) * total
    term, total = 1.0, 1.0
    for step in range(1, freedom // 2):
        term *= half / step
        total += term
    return math.exp(-half) * total


def binomial_chance(hits: int, trials: int, rate: float) -> float:
    """Upper bound of the probability of so many hits or more (Chernoff, 1952)."""
    if trials <= 0 or hits <= rate * trials:
        return 1.0
    share = min(hits / trials, 1.0)
    divergence = share * math.log(share / rate)
    if share < 1:
        divergence += (1 - share) * math.log((1 - share) / (1 - rate))
    return math.exp(-trials * divergence)
