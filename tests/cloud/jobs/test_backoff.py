"""Pauses: random, growing, bounded, and no shorter than the other end asked."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from cloud.jobs.backoff import pause_s


@settings(deadline=None)  # a busy machine is no failure
@given(st.integers(1, 10_000), st.floats(0, 1e9), st.integers())
def test_within_its_bounds(attempt: int, at_least_s: float, seed: int) -> None:
    pause = pause_s(attempt, 1.0, 300.0, Random(seed), at_least_s)
    assert min(at_least_s, 300) <= pause <= min(at_least_s, 300) + min(300, 2.0 ** min(attempt, 20))


def test_it_doubles_up_to_its_bound() -> None:
    most = [max(pause_s(n, 1.0, 8.0, Random(s)) for s in range(200)) for n in range(1, 7)]
    assert [round(pause) for pause in most] == [1, 2, 4, 8, 8, 8]
