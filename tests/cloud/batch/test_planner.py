"""What fits into a window."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud.batch.planner import plan, reached, rows_per_s, window_after
from cloud.batch.source import Found


def found(name: str, rows: int, modified: float = 0.0) -> Found:
    return Found(name, rows, "t", modified)


def rows_of(one: Found) -> int:
    return one.size_bytes


def names(pairs: tuple[tuple[Found, int], ...]) -> str:
    return "".join(one.name for one, _ in pairs)


def test_the_oldest_go_first_and_the_rest_is_left() -> None:
    pending = [(found(n, 100, -ord(n)), 0) for n in "abcdef"]
    planned = plan(pending, rows_of, rate=100.0, seconds=5.0)  # 400 rows with the margin
    assert (names(planned.take), names(planned.left)) == ("fedc", "ba")


def test_nothing_younger_goes_before_an_older_one_that_does_not_fit() -> None:
    pending = [(found("a", 100), 0), (found("b", 900), 0), (found("c", 1), 0)]
    assert names(plan(pending, rows_of, 100.0, 5.0).take) == "a"


def test_rows_that_are_answered_already_take_no_room() -> None:
    pending = [(found("a", 1000), 990), (found("b", 300), 0)]
    assert names(plan(pending, rows_of, 100.0, 5.0).take) == "ab"


def test_an_input_larger_than_a_window_is_begun_all_the_same() -> None:
    assert names(plan([(found("a", 10**9), 0)], rows_of, 100.0, 5.0).take) == "a"


@given(st.lists(st.tuples(st.integers(1, 500), st.floats(0, 10)), max_size=20), st.floats(0, 1e4))
def test_everything_is_either_taken_or_left(sizes: list[tuple[int, float]], rate: float) -> None:
    pending = [(found(str(n), size, at), 0) for n, (size, at) in enumerate(sizes)]
    planned = plan(pending, rows_of, rate, 1.0)
    assert sorted(planned.take + planned.left, key=str) == sorted(pending, key=str)
    ages = [one.modified for one, _ in planned.take + planned.left]
    assert ages == sorted(ages)
    assert sum(one.size_bytes for one, _ in planned.take[:-1]) <= rate


def test_the_rate_is_of_the_idle_time() -> None:
    assert rows_per_s(lambda rows: rows * 0.001, 16, 0.5, 1.0) == pytest.approx(500)
    assert rows_per_s(lambda rows: rows * 0.001, 16, 0.0, 1.0) == pytest.approx(50)  # never none


def test_a_plan_learns_from_what_was_reached() -> None:
    ratio, real = 1.0, 300.0
    for _ in range(6):
        ratio = reached(ratio, 1000.0 * ratio, int(real), 1.0)
    assert 1000.0 * ratio == pytest.approx(real, rel=0.05)
    assert reached(ratio, 100.0, 0, 1.0) == ratio  # nothing done says nothing


def test_windows_begin_at_whole_multiples() -> None:
    assert window_after(1_800_000_001.0, 900.0) == 1_800_000_900.0
    assert window_after(1_800_000_900.0, 900.0) == 1_800_001_800.0
