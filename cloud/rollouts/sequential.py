"""Confidence sequences: intervals that hold at every look at once. Pure.

A fixed-sample test that is looked at again and again finds something in the end. These do not: the
probability that one of them ever excludes the truth, over all times, is at most `alpha`. Each
depends on counts alone, so it does not matter how counts came in pieces.

- Rates: the beta-binomial mixture with a Jeffreys prior (Robbins 1970; Howard, Ramdas, McAuliffe,
  Sekhon, Annals of Statistics 2021). At p = 0 one success excludes it, at any alpha.
- Paired differences: betting against the bound, a mixture over fixed stakes (Waudby-Smith, Ramdas,
  JRSS B 2024). It needs no common rate: each sample may have another one.
- Sums with an estimated variance: the normal mixture boundary, valid asymptotically (Waudby-Smith,
  Arbour, Sinha, Kennedy, Ramdas, Annals of Statistics 2024).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_STEPS = 40  # of bisection: 1e-12
_STAKES: Final = tuple(2.0**-k for k in range(1, 9))
"""Shares of the largest stake that cannot lose everything; growth is flat around the best one."""
_STAKE_MAX: Final = 1e3
_RHO: Final = 25.0
"""Variance at which the normal mixture is tightest: of about 500 samples at a rate of 5 %."""


@dataclass(frozen=True, slots=True)
class Interval:
    low: float
    high: float


def rate(successes: int, trials: int, alpha: float) -> Interval:
    """Of a Bernoulli rate, both sides together at level `alpha`; (0, 1) without trials."""
    if trials <= 0:
        return Interval(0.0, 1.0)
    wealth = _log_beta(successes + 0.5, trials - successes + 0.5) - _log_beta(0.5, 0.5)
    limit = wealth + math.log(alpha)
    mode = successes / trials

    def outside(p: float) -> bool:
        return _log_likelihood(successes, trials, p) < limit

    low = _edge(outside, 0.0, mode) if successes else 0.0
    high = _edge(outside, 1.0, mode) if successes < trials else 1.0
    return Interval(low, high)


def rate_exceeds(successes: int, trials: int, bound: float, alpha: float) -> bool:
    """Whether the interval of `rate` lies above the bound, without looking for its ends."""
    if trials <= 0 or successes <= bound * trials:
        return False
    wealth = _log_beta(successes + 0.5, trials - successes + 0.5) - _log_beta(0.5, 0.5)
    return _log_likelihood(successes, trials, bound) < wealth + math.log(alpha)


def loss_exceeds(wins: int, losses: int, ties: int, bound: float, alpha: float) -> bool:
    """Whether the mean of (losses - wins) per pair is over the bound (-1..1), at level `alpha`.

    A win is a pair that only the candidate has right, a loss one that only the active version has.
    """
    return _log_bet(losses, wins, ties, bound) >= -math.log(alpha)


def loss(wins: int, losses: int, ties: int, alpha: float) -> Interval:
    """Of that mean, each side at level `alpha`; (-1, 1) without pairs."""
    pairs = wins + losses + ties
    if pairs <= 0:
        return Interval(-1.0, 1.0)
    limit = -math.log(alpha)
    mean = (losses - wins) / pairs
    low = _edge(lambda m: _log_bet(losses, wins, ties, m) >= limit, -1.0, mean)
    high = _edge(lambda m: _log_bet(wins, losses, ties, -m) >= limit, 1.0, mean)
    return Interval(low, high)


def radius(variance: float, alpha: float) -> float:
    """How far a sum with this (estimated) variance strays from its mean to one side, at any time."""
    total = variance + _RHO
    return math.sqrt(total * (math.log(total / _RHO) - 2 * math.log(alpha)))


def _log_bet(ups: int, downs: int, flats: int, mean: float) -> float:
    """Log wealth of a mixture of bets that a variable in {1, 0, -1} has a larger mean than this."""
    if mean >= 1:
        return -math.inf
    grown = [ups * up + downs * down + flats * flat for up, down, flat in log_factors(mean)]
    best = max(grown)
    return best + math.log(sum(math.exp(one - best) for one in grown) / len(grown))


def log_factors(mean: float) -> list[tuple[float, float, float]]:
    """Of each stake: by what a 1, a -1 and a 0 multiply what was bet on a larger mean than this."""
    most = min(1 / (1 + mean), _STAKE_MAX) if mean > -1 else _STAKE_MAX
    stakes = [share * most for share in _STAKES]
    return [
        (math.log1p(s * (1 - mean)), math.log1p(-s * (1 + mean)), math.log1p(-s * mean))
        for s in stakes
    ]


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def _log_likelihood(successes: int, trials: int, p: float) -> float:
    failures = trials - successes
    if (successes and p <= 0) or (failures and p >= 1):
        return -math.inf
    return (successes * math.log(p) if successes else 0.0) + (
        failures * math.log1p(-p) if failures else 0.0
    )


def _edge(outside: Callable[[float], bool], far: float, near: float) -> float:
    """Between a value that may be outside and one that is inside."""
    if not outside(far):
        return far
    for _ in range(_STEPS):
        middle = (far + near) / 2
        if outside(middle):
            far = middle
        else:
            near = middle
    return far
