"""When a device asks for its next certificate, with a clock that may be anything."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.identity.schedule import JITTER, LOOK_S_MAX, RENEW_FROM, Validity, is_wrong, wait_s

DAY_S = 86_400.0
NOW = 1_800_000_000.0
NEW = Validity(NOW, NOW + 90 * DAY_S)


def days(validity: Validity, now: float, jitter: float = 0.0, held_s: float | None = None) -> float:
    return wait_s(validity, now, jitter, held_s) / DAY_S


def test_a_new_certificate_is_left_alone_and_looked_at_daily() -> None:
    assert days(NEW, NOW) == 1
    assert days(NEW, NOW + 59.5 * DAY_S) == 0.5


def test_it_is_renewed_from_two_thirds_on() -> None:
    assert days(NEW, NOW + 60 * DAY_S) == 0
    assert days(NEW, NOW + 60 * DAY_S, jitter=1.0) > 0
    assert days(NEW, NOW + 69 * DAY_S, jitter=1.0) == 0


def test_an_expired_one_still_tries() -> None:
    assert days(NEW, NOW + 400 * DAY_S) == 0


def test_a_clock_in_1970_tries_once_at_the_start() -> None:
    assert is_wrong(NEW, 0.0)
    assert days(NEW, 0.0) == 0


def test_and_then_counts_from_what_it_got() -> None:
    assert days(NEW, 0.0, held_s=0.0) == 1
    assert days(NEW, 0.0, held_s=59.5 * DAY_S) == 0.5
    assert days(NEW, 0.0, held_s=60 * DAY_S) == 0


def test_a_clock_that_runs_years_ahead_asks_once_a_day_and_not_in_a_loop() -> None:
    ahead = NOW + 4000 * DAY_S
    assert days(NEW, ahead, held_s=0.0) == 1
    assert days(NEW, ahead, held_s=DAY_S) == 0


def test_a_short_certificate_is_renewed_before_its_end() -> None:
    short = Validity(NOW, NOW + 60)
    assert wait_s(short, NOW, 1.0, 0.0) < 60
    assert wait_s(short, NOW + 50, 1.0, 50.0) == 0


moments = st.floats(0, 2**33)


@given(moments, st.floats(1, 3650 * DAY_S), moments, st.floats(0, 1), st.none() | st.floats(0, 1e9))
def test_it_always_says_when_within_a_day(begin, life, now, jitter, held) -> None:
    assert 0 <= wait_s(Validity(begin, begin + life), now, jitter, held) <= LOOK_S_MAX


@given(st.floats(10, 3650 * DAY_S), st.floats(0, 1))
def test_with_a_right_clock_there_is_time_left_for_what_goes_wrong(life, jitter) -> None:
    validity = Validity(NOW, NOW + life)
    assert wait_s(validity, NOW + life * (RENEW_FROM + JITTER) + 1, jitter, None) == 0
    assert pytest.approx(0.767, abs=0.01) == RENEW_FROM + JITTER
