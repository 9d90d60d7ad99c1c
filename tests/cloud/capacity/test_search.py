"""The search against a server of known capacity, on virtual time."""

from collections import deque
from random import Random

import numpy as np
import pytest

from cloud.capacity.load.arrivals import Stretch, poisson
from cloud.capacity.load.outcomes import Outcomes, phase
from cloud.capacity.measure import trial_of
from cloud.capacity.search import Rules, Search, Trial, begin, blames_generator, keeps, step

SECONDS = 10.0


def serve(rate: float, capacity: float, depth: int, seed: int, stall_s: float = 0.0) -> Trial:
    """One server that takes 1 / capacity a request, in order, and refuses beyond `depth` waiting."""
    due = poisson([Stretch(rate, SECONDS)], Random(seed))
    done, status, ends = [], [], deque[float]()
    free_at = stall_s
    for at in due:
        while ends and ends[0] <= at:
            ends.popleft()
        if len(ends) > depth:
            done.append(at + 1e-4)
            status.append(429)
            continue
        free_at = max(free_at, at) + 1 / capacity
        ends.append(free_at)
        done.append(free_at)
        status.append(200)
    column = np.array(due)
    found = Outcomes(column, column, column, np.array(done), np.array(status, np.int64))
    return trial_of(phase(found, 0.0, SECONDS))


def search(rules: Rules, capacity: float, depth: int = 10_000) -> tuple[Search, list[float]]:
    state, rates = begin(rules), []
    while state.rate is not None:
        rates.append(state.rate)
        assert len(rates) < 100
        state = step(rules, state, serve(state.rate, capacity, depth, seed=len(rates)))
    return state, rates


@pytest.mark.parametrize("capacity", [30.0, 300.0, 2000.0])
@pytest.mark.parametrize("start", [100.0, 3000.0])
def test_both_rates_of_a_known_server_are_found(capacity: float, start: float) -> None:
    rules = Rules(sla_ms=5000 / capacity, start_qps=start)  # five services' time
    found, rates = search(rules, capacity)
    # by simulation the border is at 0.65 to 0.75 of the capacity
    assert serve(found.kept * 0.9, capacity, 10_000, 77).p99_ms < rules.sla_ms * 1.05
    assert serve(found.kept * 1.15, capacity, 10_000, 77).p99_ms > rules.sla_ms * 0.95
    assert found.best == pytest.approx(capacity, rel=0.05)
    assert len(rates) < 30


def test_refusals_miss_the_sla_however_soon_the_others_are_answered() -> None:
    rules = Rules(sla_ms=1000, start_qps=100)
    found, _ = search(rules, 500.0, depth=5)
    at = serve(found.kept, 500.0, 5, 77)
    assert at.p99_ms < 20
    assert at.refused_share < 0.005
    assert found.kept < 450


def test_a_server_that_never_keeps_it_has_none_and_a_maximum_all_the_same() -> None:
    found, _ = search(Rules(sla_ms=1.0), 50.0)
    assert found.kept == 0
    assert found.best == pytest.approx(50, rel=0.1)


def test_looking_ends_where_it_was_told_to() -> None:
    found, rates = search(Rules(sla_ms=100, qps_max=800), 1e6)
    assert found.kept == 800
    assert rates == [100, 200, 400, 800]


def test_nor_does_the_look_for_the_maximum_go_beyond() -> None:
    found, rates = search(Rules(sla_ms=1e-9, qps_max=300), 1e6)  # nothing keeps that
    assert max(rates) == 300
    assert rates.count(300) == 1
    assert found.best > 200


def test_a_missed_trial_is_repeated_once_and_the_better_counts() -> None:
    rules = Rules(sla_ms=50)
    good, bad = Trial(100, 100, 0, 1, 10), Trial(100, 100, 0, 1, 80)
    once = step(rules, begin(rules), bad)
    assert (once.rate, once.missed) == (100, float("inf"))
    assert step(rules, once, good).rate == 200
    twice = step(rules, once, bad)
    assert (twice.rate, twice.missed) == (50, 100)


def test_a_trial_that_brought_no_more_answers_is_repeated_once_too() -> None:
    rules = Rules(sla_ms=50)
    before = Search(150, "maximum", kept=90, missed=100, best=100)
    more, same = Trial(150, 120, 0.2, 9, 99), Trial(150, 104, 0.3, 9, 99)
    once = step(rules, before, same)
    assert (once.rate, once.best) == (150, 104)
    assert step(rules, once, more).rate == 225
    assert step(rules, once, same).rate is None


@pytest.mark.parametrize(
    ("trial", "kept"),
    [
        (Trial(100, 100, 0.0, 1, 50), True), (Trial(100, 100, 0.0, 1, 50.1), False),
        (Trial(1000, 999, 0.00099, 1, 5), True), (Trial(1000, 999, 0.001, 1, 5), False),
        (Trial(100, 0, 0.0, 0, 0), False),
    ],
)  # fmt: skip
def test_what_counts_as_kept(trial: Trial, kept: bool) -> None:
    assert keeps(Rules(sla_ms=50), trial) is kept


def test_answers_after_the_end_are_no_rate() -> None:
    trial = serve(2000, 500.0, 1_000_000, 1)
    assert trial.answered_qps == pytest.approx(500, rel=0.02)
    assert trial.refused_share == 0


@pytest.mark.parametrize(
    ("p99_ms", "lag_ms", "blamed"), [(60, 6, True), (60, 5, False), (40, 6, False)]
)
def test_a_generator_that_was_late_is_blamed_for_a_missed_trial_only(
    p99_ms: float, lag_ms: float, blamed: bool
) -> None:
    trial = Trial(100, 100, 0.0, 1, p99_ms, lag_ms)
    assert blames_generator(Rules(sla_ms=50), trial) is blamed
