"""Pauses: random, growing, bounded, and no shorter than the other end asked."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.backoff import pause_s


@settings(deadline=None)  # a busy machine is no failure
@given(st.integers(1, 10_000), st.floats(0, 1e9), st.integers())
def test_within_its_bounds(failures: int, asked_s: float, seed: int) -> None:
    pause = pause_s(failures, 1.0, 300.0, Random(seed), asked_s)
    assert min(asked_s, 300) <= pause <= min(asked_s, 300) + min(300, 2.0 ** min(failures, 20))


def test_it_doubles_up_to_its_bound() -> None:
    most = [max(pause_s(n, 1.0, 8.0, Random(s)) for s in range(200)) for n in range(1, 7)]
    assert [round(pause) for pause in most] == [1, 2, 4, 8, 8, 8]


class _Most:
    def uniform(self, a: float, b: float) -> float:
        return b


def test_pauses_double_up_to_their_bound_and_begin_after_what_was_asked_for() -> None:
    assert [pause_s(n, 1.0, 60.0, _Most()) for n in (1, 2, 3, 7, 5000)] == [1, 2, 4, 60, 60]
    assert pause_s(1, 1.0, 60.0, _Most(), asked_s=5.0) == 6.0
    assert pause_s(1, 1.0, 60.0, _Most(), asked_s=1e9) == 61.0
    assert pause_s(1, 1.0, 60.0, _Most(), asked_s=-5.0) == 1.0
