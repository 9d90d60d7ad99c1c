from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud.serving.latency_curve import LatencyCurve


def test_between_two_measured_sizes_it_is_linear() -> None:
    curve = LatencyCurve({1: 0.001, 2: 0.002, 4: 0.006})
    assert [curve.cost_s(n) for n in (1, 2, 3, 4)] == pytest.approx([0.001, 0.002, 0.004, 0.006])


def test_past_the_largest_size_it_grows_in_proportion() -> None:
    assert LatencyCurve({1: 0.001, 4: 0.004}).cost_s(8) == pytest.approx(0.008)


def test_a_hiccup_at_a_small_size_raises_the_larger_ones() -> None:
    assert LatencyCurve({1: 0.005, 2: 0.002}).cost_s(2) == pytest.approx(0.005)


def test_a_slower_machine_is_learnt_and_one_hiccup_is_not() -> None:
    curve = LatencyCurve({1: 0.001})
    curve.observe(1, 1.0)
    assert curve.cost_s(1) < 0.002
    for _ in range(200):
        curve.observe(1, 0.003)
    assert curve.cost_s(1) == pytest.approx(0.003, rel=0.02)


@pytest.mark.parametrize("measured", [{}, {0: 0.1}, {1: -0.1}])
def test_nonsense_is_refused(measured: dict[int, float]) -> None:
    with pytest.raises(ValueError, match="a curve needs"):
        LatencyCurve(measured)


@given(
    st.dictionaries(st.integers(1, 64), st.floats(0, 10), min_size=1),
    st.lists(st.tuples(st.integers(1, 64), st.floats(0, 10))),
)
def test_a_bigger_batch_never_costs_less(
    measured: dict[int, float], seen: list[tuple[int, float]]
) -> None:
    curve = LatencyCurve(measured)
    for size, took_s in seen:
        curve.observe(size, took_s)
    costs = [curve.cost_s(size) for size in range(1, 80)]
    assert all(a <= b + 1e-12 for a, b in pairwise(costs))


def test_past_the_largest_size_what_was_seen_is_held_against_the_proportion() -> None:
    curve = LatencyCurve({1: 0.001})
    for _ in range(200):
        curve.observe(8, 0.008)
    assert curve.cost_s(1) == pytest.approx(0.001, rel=0.03)


def test_whoever_keeps_costs_is_told_of_changes_that_matter() -> None:
    curve = LatencyCurve({1: 0.001})
    for _ in range(50):
        curve.observe(1, 0.00101)
    assert (curve.revision, curve.cost_s(1)) == (0, 0.001)
    curve.observe(1, 0.002)
    assert curve.revision == 1
    assert curve.cost_s(1) > 0.001


def test_the_efficient_size_is_the_smallest_that_gives_nearly_the_best_throughput() -> None:
    curve = LatencyCurve({1: 1.0, 2: 1.1, 4: 2.1, 8: 4.2})
    assert curve.efficient((1, 2, 4, 8), 0.9) == 2
    assert curve.efficient((8, 4, 1), 1.0) == 4
    assert curve.efficient((3,), 0.9) == 3
    assert LatencyCurve({1: 0.0}).efficient((1, 2), 0.9) == 1


def test_one_hiccup_moves_it_by_little_and_a_slow_machine_is_learnt_soon() -> None:
    curve = LatencyCurve({1: 0.001})
    curve.observe(1, 5.0)
    assert curve.cost_s(1) < 0.0012
    batches = 0
    while curve.cost_s(1) < 0.009:
        curve.observe(1, 0.010)
        batches += 1
    assert batches < 60


def test_what_the_quick_batches_take_is_known_beside_what_most_take() -> None:
    """A thread that waits for the interpreter's lock looks slow; its batch is not."""
    curve = LatencyCurve({1: 0.004, 2: 0.008})
    curve.observe(1, 0.0008)
    assert curve.quick_s(1) > 0.0035
    for n in range(400):
        curve.observe(1, 0.0008 if n % 2 == 0 else 0.006)
    assert curve.quick_s(1) == pytest.approx(0.0008, rel=0.1)
    assert curve.quick_s(2) == pytest.approx(0.0016, rel=0.1)
    for _ in range(200):
        curve.observe(1, 0.004)
    assert curve.quick_s(1) == pytest.approx(0.004, rel=0.1)
