"""Observing many at once is observing each."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cloud.monitoring.recent_load import RecentLoad
from cloud.monitoring.stage_times import EDGES_S, StageTime

seconds = st.lists(st.one_of(st.floats(0, 5), st.sampled_from(EDGES_S)), max_size=50)


@given(seconds)
def test_many_at_once_are_each_of_them(values: list[float]) -> None:
    one_by_one, at_once = StageTime(), StageTime()
    for value in values:
        one_by_one.observe(value)
    at_once.observe_all(np.array(values, float))

    assert at_once.counts == one_by_one.counts
    assert np.isclose(at_once.sum_s, one_by_one.sum_s)


@given(seconds)
def test_and_so_with_the_load_of_the_last_seconds(values: list[float]) -> None:
    one_by_one, at_once = RecentLoad(), RecentLoad()
    for value in values:
        one_by_one.observe(value)
    at_once.observe_all(np.array(values, float))

    assert at_once.p99_s == one_by_one.p99_s
