import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.errors import Malformed
from shared.token_bucket import TokenBucket


def test_a_burst_passes_and_then_one_a_period() -> None:
    bucket = TokenBucket(rate_per_s=10, burst=3)
    assert [bucket.take(100.0) for _ in range(4)] == [True, True, True, False]
    assert not bucket.take(100.05)
    assert bucket.take(100.125)
    assert not bucket.take(100.125)


def test_a_long_pause_fills_it_to_the_burst_only() -> None:
    bucket = TokenBucket(rate_per_s=1000, burst=2)
    bucket.take(0.0)
    assert [bucket.take(1e9) for _ in range(3)] == [True, True, False]


def test_a_clock_that_steps_back_gives_nothing() -> None:
    bucket = TokenBucket(rate_per_s=1, burst=1)
    assert bucket.take(100.0)
    assert not bucket.take(50.0)
    assert not bucket.take(100.5)
    assert bucket.take(101.0)


def test_a_clock_that_steps_back_takes_nothing() -> None:
    bucket = TokenBucket(rate_per_s=1, burst=2)
    assert bucket.take(100.0)
    assert bucket.take(50.0)


@pytest.mark.parametrize("rate", [0.0, -1.0, math.inf, math.nan])
def test_a_rate_that_is_none_is_refused(rate: float) -> None:
    with pytest.raises(Malformed, match="rate"):
        TokenBucket(rate, 1)


@pytest.mark.parametrize("burst", [0.0, 0.5, -1.0, math.inf, math.nan])
def test_a_burst_that_never_lets_one_pass_is_refused(burst: float) -> None:
    with pytest.raises(Malformed, match="burst"):
        TokenBucket(1, burst)


@settings(deadline=None)
@given(
    st.lists(st.floats(-1, 5), min_size=1, max_size=60), st.floats(0.1, 50), st.floats(1, 20)
)  # fmt: skip
def test_no_span_of_time_passes_more_than_rate_and_burst(
    steps: list[float], rate: float, burst: float
) -> None:
    bucket = TokenBucket(rate, burst)
    now, latest, passed = 0.0, -math.inf, []
    for step in steps:
        now += step
        latest = max(latest, now)
        if bucket.take(now):
            passed.append(latest)
    for first, start in enumerate(passed):
        for last in range(first, len(passed)):
            bound = burst + rate * (passed[last] - start)
            assert last - first + 1 <= bound + 1e-6
