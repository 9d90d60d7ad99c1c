"""Beside `tests/simulations/serve_bench`, which has the phase of an open loop."""

import numpy as np
import pytest

from cloud.capacity.load.outcomes import Outcomes, phase


def outcomes(*entries: tuple[float, float, float, float, int]) -> Outcomes:
    due, noticed, sent, done, status = np.array(entries, np.float64).reshape(-1, 5).T
    return Outcomes(due, noticed, sent, done, status.astype(np.int64))


def test_generators_that_ran_at_once_are_one_load_in_the_order_of_due() -> None:
    one = outcomes((0.1, 0.1, 0.1, 0.2, 200), (0.5, 0.5, 0.5, 0.6, 429))
    other = outcomes((0.3, 0.3, 0.3, 0.4, 200))
    both = Outcomes.together([one, other])
    assert both.due.tolist() == [0.1, 0.3, 0.5]
    assert both.status.tolist() == [200, 200, 429]
    assert phase(both, 0, 1).answered == 2


def test_a_latency_counts_from_when_it_was_due() -> None:
    found = phase(outcomes((0.0, 0.0, 1.0, 1.0, 200), (0.1, 0.1, 1.0, 1.001, 200)), 0, 2)
    assert found.answered_p50_ms == pytest.approx((1000 + 901) / 2)


def test_the_generators_own_lag_is_told_apart_from_busy_connections() -> None:
    busy = phase(outcomes((0.0, 0.0, 0.5, 0.6, 200)), 0, 1)
    slow = phase(outcomes((0.0, 0.5, 0.5, 0.6, 200)), 0, 1)
    assert (busy.late_p99_ms, busy.lag_p99_ms) == (500, 0)
    assert (slow.late_p99_ms, slow.lag_p99_ms) == (500, 500)


def test_a_rate_counts_what_came_within_the_time() -> None:
    found = phase(
        outcomes((0.1, 0.1, 0.1, 0.2, 200), (0.9, 0.9, 0.9, 1.5, 200), (0.2, 0.2, 0.2, 0.3, 503)),
        0, 1,
    )  # fmt: skip
    assert (found.answered, found.answers_per_second) == (2, 1.0)
