import os
import select
import time
from random import Random

import numpy as np
import pytest

from cloud.capacity.load.arrivals import Stretch, poisson
from cloud.capacity.load.outcomes import Outcomes, phase
from cloud.capacity.load.timer import Timer
from simulations.serve_bench.accounting import recovered_s, slope


def outcomes(*entries: tuple[float, float, float, int]) -> Outcomes:
    due, sent, done, status = np.array(entries, np.float64).T
    return Outcomes(due, due, sent, done, status.astype(np.int64))


def steady(
    begins: float, ends: float, status: int, took_s: float
) -> list[tuple[float, float, float, int]]:
    return [(at, at, at + took_s, status) for at in np.arange(begins, ends, 0.01)]


def test_arrivals_rise_have_their_rate_and_their_gaps_are_exponential() -> None:
    due = poisson([Stretch(1_000, 20), Stretch(100, 20)], Random(1))
    gaps = np.diff([at for at in due if at < 20])
    assert due == sorted(due)
    assert abs(sum(at < 20 for at in due) - 20_000) < 500
    assert abs(sum(at >= 20 for at in due) - 2_000) < 200
    assert max(due) < 40
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.05)  # of an exponential they are equal


def test_arrivals_are_the_same_for_the_same_seed() -> None:
    stretches = [Stretch(50, 2)]
    assert poisson(stretches, Random(2)) == poisson(stretches, Random(2))


def test_a_request_that_was_sent_late_is_charged_from_when_it_was_due() -> None:
    # a server that stood still for a second: the second request was due meanwhile
    found = phase(outcomes((0.0, 0.0, 1.0, 200), (0.1, 1.0, 1.001, 200)), 0, 1)
    assert found.answered_p50_ms == pytest.approx((1_000 + 901) / 2)
    assert found.late_p99_ms > 850


def test_each_request_is_answered_refused_or_failed() -> None:
    found = phase(
        outcomes(
            (0.0, 0.0, 0.01, 200), (0.1, 0.1, 0.101, 429), (0.2, 0.2, 0.202, 503),
            (0.3, 0.3, 0.31, 500), (0.4, 0.4, 0.0, 0), (1.0, 1.0, 1.5, 200),
        ), 0, 1,
    )  # fmt: skip
    assert (found.answered, found.refused, found.failed) == (1, 2, 2)
    assert found.answered_p99_ms == pytest.approx(10)
    assert found.refused_p99_ms == pytest.approx(2, rel=0.01)
    assert found.asked_per_second == 5


def test_a_time_in_which_nothing_was_due_has_zeros() -> None:
    found = phase(outcomes((5.0, 5.0, 5.1, 200)), 0, 1)
    assert (found.answered, found.answered_p99_ms, found.late_p99_ms) == (0, 0.0, 0.0)


def test_recovery_is_when_half_a_second_has_neither_refusals_nor_slow_answers() -> None:
    found = outcomes(
        *steady(0, 0.4, 429, 0.001), *steady(0.4, 0.8, 200, 0.05), *steady(0.8, 3, 200, 0.01)
    )
    assert recovered_s(found, 0.0, 15.0, 0.5, 3.0) == pytest.approx(0.8, abs=0.06)


def test_what_never_recovers_takes_all_the_time_there_was() -> None:
    assert recovered_s(outcomes(*steady(0, 3, 429, 0.001)), 0.0, 15.0, 0.5, 3.0) == 3.0


def test_one_refusal_among_quick_answers_is_no_recovery_yet() -> None:
    found = outcomes(
        *steady(0, 1, 200, 0.001), (1.0, 1.0, 1.001, 429), *steady(1.01, 3, 200, 0.001)
    )
    assert recovered_s(found, 0.6, 15.0, 0.5, 3.0) == pytest.approx(0.45, abs=0.06)


def test_a_time_in_which_nothing_was_due_is_no_recovery() -> None:
    found = outcomes(*steady(0, 0.2, 429, 0.001), *steady(1, 3, 200, 0.001))
    assert recovered_s(found, 0.2, 15.0, 0.5, 3.0) == pytest.approx(0.35, abs=0.06)


def test_a_request_without_an_answer_is_no_recovery() -> None:
    found = outcomes(*steady(0, 1, 0, 0.001), *steady(1, 3, 200, 0.001))
    assert recovered_s(found, 0.0, 15.0, 0.5, 3.0) == pytest.approx(1.0, abs=0.06)


def test_the_slope_is_that_of_the_line_and_needs_two_points() -> None:
    assert slope([0, 1, 2, 3], [10, 12, 14, 16]) == pytest.approx(2)
    assert slope([1], [5]) == 0.0


def test_the_timer_goes_off_when_it_was_set_to_and_at_once_for_what_is_over() -> None:
    timer = Timer()
    try:
        for ahead in (0.003, -1.0):
            at = time.monotonic() + ahead
            timer.set(at)
            ready, _, _ = select.select([timer.fd], [], [], 5)
            assert ready
            assert time.monotonic() >= at
            timer.clear()
            assert not select.select([timer.fd], [], [], 0)[0]
    finally:
        timer.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(timer.fd)
