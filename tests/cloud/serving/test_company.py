from hypothesis import given
from hypothesis import strategies as st

from cloud.serving.company import company

FLAT = [0.0, 1.0, 1.0, 1.0, 1.0]
LINEAR = [0.0, 1.0, 2.0, 3.0, 4.0]


def test_where_a_batch_costs_the_same_whatever_its_size_company_is_waited_for() -> None:
    size, wait_s = company(1, (2, 4), rate=10.0, cost_s=FLAT, wait_s_max=1.0)
    assert (size, round(wait_s, 9)) == (4, 0.3)


def test_where_it_costs_in_proportion_nobody_is_waited_for() -> None:
    assert company(1, (2, 4), rate=1e6, cost_s=LINEAR, wait_s_max=1.0) == (1, 0.0)


def test_company_that_comes_after_the_longest_wait_is_not_waited_for() -> None:
    size, wait_s = company(1, (2, 4), rate=10.0, cost_s=FLAT, wait_s_max=0.2)
    assert (size, wait_s) == (2, 0.1)


def test_company_that_comes_when_it_would_be_served_anyway_is_not_waited_for() -> None:
    """Answered after 2 x (0.6 + 1) in sum against 1 + (1 + 1), and 2 x (0.4 + 1)."""
    assert company(1, (2,), rate=1 / 0.6, cost_s=FLAT, wait_s_max=9.0) == (1, 0.0)
    size, wait_s = company(1, (2,), rate=1 / 0.4, cost_s=FLAT, wait_s_max=9.0)
    assert (size, round(wait_s, 9)) == (2, 0.4)


def test_who_comes_after_the_batch_would_be_done_is_not_waited_for() -> None:
    steep = [0.0, 1.0, 1.0, 9.0, 9.0]  # three together cost nine times what one does
    assert company(1, (4,), rate=2.9, cost_s=steep, wait_s_max=9.0) == (1, 0.0)


def test_of_two_sizes_the_one_that_gains_more_is_waited_for() -> None:
    size, wait_s = company(1, (2, 4), rate=5.0, cost_s=FLAT, wait_s_max=9.0)
    assert (size, wait_s) == (2, 0.2)


def test_a_size_that_is_reached_already_is_no_target() -> None:
    assert company(4, (2, 4), rate=10.0, cost_s=FLAT, wait_s_max=1.0) == (4, 0.0)


def test_with_no_arrivals_nobody_is_waited_for() -> None:
    assert company(1, (4,), rate=0.0, cost_s=FLAT, wait_s_max=1.0) == (1, 0.0)


@given(
    st.integers(1, 8),
    st.floats(0, 1e4),
    st.lists(st.floats(0, 2), min_size=9, max_size=9),
    st.floats(0, 5),
)
def test_a_wait_is_bounded_and_gains_throughput(
    rows: int, rate: float, steps: list[float], wait_s_max: float
) -> None:
    cost_s = [0.0]
    for step in steps:
        cost_s.append(cost_s[-1] + step)
    size, wait_s = company(rows, (2, 4, 8), rate, cost_s, wait_s_max)
    assert 0 <= wait_s <= wait_s_max
    assert (size > rows) == (wait_s > 0)
    if wait_s:
        assert wait_s < cost_s[rows]
        assert size / cost_s[size] > rows / cost_s[rows]
