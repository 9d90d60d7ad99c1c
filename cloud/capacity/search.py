"""Find the highest rate at which a server keeps its SLA, and its highest rate at all. Pure.

Rates double until the SLA is missed, then the interval halves (geometrically) until it is narrow
enough; after that the load rises until no more answers come of it. A trial that ends a rise is
repeated once: whatever else a machine does can only make one worse, so the better of two is the
nearer one.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True, slots=True)
class Rules:
    """What counts as kept, and how closely to look. Rates are requests a second."""

    sla_ms: float
    refused_share_max: float = 0.001
    """Of requests that got no answer, for whatever reason."""
    start_qps: float = 100.0
    qps_min: float = 1.0
    """A server that misses its SLA here has none to speak of."""
    qps_max: float = 200_000.0
    """Where looking ends, whatever the server can do."""
    precision: float = 0.05
    """Of the rate at the SLA; trials of some seconds differ by about as much."""
    tries: int = 2
    gain_min: float = 0.05
    """More load that brings less than this share of more answers has found the maximum."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One rate that was tried. Latencies are those of answers, milliseconds from when due."""

    asked_qps: float
    answered_qps: float
    refused_share: float
    """Of requests without an answer: refused or failed."""
    p50_ms: float
    p99_ms: float
    lag_ms: float = 0.0
    """p99 of how late the load generator was by itself."""


@dataclass(frozen=True, slots=True)
class Search:
    """Where the search is. `rate` is what to try next; None: it is over."""

    rate: float | None
    stage: Literal["sla", "maximum"] = "sla"
    kept: float = 0.0
    """Highest rate that kept the SLA."""
    missed: float = math.inf
    """Lowest rate that did not."""
    best: float = 0.0
    """Most answers a second of any trial."""
    tried: int = 0
    """How often `rate` has been tried in vain."""


def begin(rules: Rules) -> Search:
    return Search(min(max(rules.start_qps, rules.qps_min), rules.qps_max))


def keeps(rules: Rules, trial: Trial) -> bool:
    """Whether it kept the SLA."""
    return (
        trial.answered_qps > 0
        and trial.p99_ms <= rules.sla_ms
        and trial.refused_share < rules.refused_share_max
    )


def blames_generator(rules: Rules, trial: Trial) -> bool:
    """Whether a missed trial may be the load generator's own doing: it was late by a tenth of the
    SLA itself.
    """
    return not keeps(rules, trial) and trial.lag_ms > 0.1 * rules.sla_ms


def step(rules: Rules, search: Search, trial: Trial) -> Search:
    """What to try after `trial`, which was at `search.rate`."""
    rate = search.rate
    assert rate is not None, "the search is over"
    before, tried = search.best, search.tried + 1
    search = replace(search, best=max(before, trial.answered_qps), tried=0)
    if search.stage == "maximum":
        if trial.answered_qps > before * (1 + rules.gain_min):
            return _harder(rules, search, rate)
        return replace(search, tried=tried, rate=rate if tried < rules.tries else None)
    if keeps(rules, trial):
        search = replace(search, kept=rate)
    elif tried < rules.tries:
        return replace(search, tried=tried)
    else:
        search = replace(search, missed=rate)
    return _narrower(rules, search)


def _narrower(rules: Rules, search: Search) -> Search:
    kept, missed = search.kept, search.missed
    if missed == math.inf:
        if kept >= rules.qps_max:
            return replace(search, rate=None)
        return replace(search, rate=min(kept * 2, rules.qps_max))
    if kept == 0 and missed > rules.qps_min:
        return replace(search, rate=max(missed / 2, rules.qps_min))
    if kept and missed > kept * (1 + rules.precision):
        return replace(search, rate=math.sqrt(kept * missed))
    return _harder(rules, replace(search, stage="maximum"), max(missed, search.best))


def _harder(rules: Rules, search: Search, rate: float) -> Search:
    if rate >= rules.qps_max:
        return replace(search, rate=None)
    return replace(search, rate=min(rate * 1.5, rules.qps_max))
