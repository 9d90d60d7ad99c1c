import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloud.gateway.refresh import Refreshing, RefreshRules, max_age_s

RULES = RefreshRules(refresh_s=300, pause_s_min=30, stale_s_max=86_400)
START = Refreshing(RULES)


def test_keys_are_fetched_before_the_last_ones_end():
    asked = START.asking(0.0)
    assert asked.fetched(0.0, "").pause_s() == 300
    assert asked.fetched(0.0, "public, max-age=100").pause_s() == 80
    assert asked.fetched(0.0, "max-age=86400").pause_s() == 300  # no longer than we say
    assert asked.fetched(0.0, "max-age=0").pause_s() == 30  # no oftener than we say


def test_a_failing_issuer_is_asked_less_and_less_but_no_less_than_a_healthy_one():
    state, pauses = START.asking(0.0), []
    for _ in range(6):
        state = state.failed()
        pauses.append(state.pause_s())
    assert pauses == [30, 60, 120, 240, 300, 300]
    assert state.fetched(9.0, "").pause_s() == 300


def test_whoever_asks_nobody_is_asked_sooner_than_the_pause():
    assert START.may_ask(0.0)
    asked = START.asking(10.0)
    assert not asked.may_ask(39.9)
    assert asked.may_ask(40.0)
    assert not asked.failed().may_ask(39.9)


def test_the_last_keys_are_good_for_a_while():
    assert not START.are_good(0.0)
    state = START.asking(0.0).fetched(1.0, "").asking(300.0).failed()
    assert state.are_good(86_400.0)
    assert not state.are_good(86_401.0)


@pytest.mark.parametrize(
    ("header", "age"),
    [
        ("max-age=60", 60), ("no-cache, Max-Age = 60", 60), ('max-age="60"', 60),
        ("s-maxage=5", None), ("x-max-age=5", None), ("", None), ("max-age=-1", None),
        ("max-age=9999999999", 9_999_999_999), ("max-age=99999999999", 9_999_999_999),
    ],
)  # fmt: skip
def test_what_an_issuer_says_of_its_answer(header, age):
    assert max_age_s(header) == age


@settings(deadline=None)
@given(st.text(max_size=60), st.integers(0, 100))
def test_pauses_stay_within_their_bounds(header, failures):
    state = START.asking(0.0).fetched(0.0, header)
    for _ in range(failures):
        state = state.failed()
    assert 30 <= state.pause_s() <= 300
