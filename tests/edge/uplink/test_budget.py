import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.uplink.budget import Bucket


def test_without_a_rate_it_is_always_ready() -> None:
    bucket = Bucket(None, 2.0, 0.0)
    bucket.spend(1e12, 0.0)
    assert bucket.ready_at(0.0) == 0.0


def test_it_refills_at_its_rate() -> None:
    bucket = Bucket(10.0, 1.0, 0.0)
    for _ in range(10):
        assert bucket.ready_at(0.0) == 0.0
        bucket.spend(1, 0.0)
    assert math.isclose(bucket.ready_at(0.0), 0.1)


@given(
    st.floats(0.1, 1000), st.floats(0.1, 5),
    st.lists(st.tuples(st.floats(0, 3), st.integers(1, 50)), max_size=50),
)  # fmt: skip
def test_over_any_time_no_more_leaves_than_burst_and_rate_and_one_message(
    rate: float, burst_s: float, asks: list[tuple[float, int]]
) -> None:
    bucket, now, spent = Bucket(rate, burst_s, 0.0), 0.0, 0
    for gap, size in asks:
        now += gap
        if bucket.ready_at(now) <= now:
            assert spent <= max(rate * burst_s, 1) + rate * now + 1e-6
            bucket.spend(size, now)
            spent += size


def test_another_rate_keeps_a_debt_and_what_is_saved_up_to_the_new_capacity() -> None:
    bucket = Bucket(10.0, 2.0, now=0.0)
    bucket.retune(1.0, 2.0, now=0.0)
    assert bucket.ready_at(0.0) == 0.0
    bucket.spend(3.0, now=0.0)  # 2 saved: 1 in debt
    assert bucket.ready_at(0.0) == pytest.approx(2.0)
    bucket.retune(2.0, 2.0, now=0.0)
    assert bucket.ready_at(0.0) == pytest.approx(1.0)
    bucket.retune(None, 2.0, now=0.0)
    assert bucket.ready_at(0.0) == 0.0
    bucket.retune(1.0, 2.0, now=0.0)
    bucket.spend(2.0, now=0.0)
    assert bucket.ready_at(0.0) == pytest.approx(1.0)
