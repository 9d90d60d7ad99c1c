"""Who is online, and who comes and goes too often."""

from cloud.fleet.device_settings import PresenceSettings
from cloud.fleet.presence import PresenceState, changed, flaps

SETTINGS = PresenceSettings(
    changes_max=4, window_s=100, quarantine_s=50, quarantine_s_max=300, forget_s=1000
)


def _flap(state, now, times, gap_s=1.0):
    """Come and go so often; the state then, and the last word about quarantine."""
    until = None
    for _ in range(times):
        now += gap_s
        state, until = changed(state, not state.online, now, SETTINGS)
    return state, until, now


def test_the_first_word_of_a_device_is_no_change():
    state, until = changed(PresenceState(), False, 5.0, SETTINGS)
    assert (state, until) == (PresenceState(since=5.0), None)


def test_the_same_again_changes_nothing():
    state, _ = changed(PresenceState(), True, 5.0, SETTINGS)
    assert changed(state, True, 6.0, SETTINGS) == (state, None)


def test_more_changes_than_bad_luck_brings_are_flapping():
    state, _ = changed(PresenceState(), True, 0.0, SETTINGS)
    state, until, now = _flap(state, 0.0, 4)
    assert (until, flaps(state, now, 100)) == (None, 4)
    state, until, now = _flap(state, now, 1)
    assert until == now + 50
    assert flaps(state, now, 100) == 0


def test_changes_that_are_long_ago_do_not_count():
    state, _ = changed(PresenceState(), True, 0.0, SETTINGS)
    state, until, _ = _flap(state, 0.0, 50, gap_s=26.0)
    assert until is None
    assert len(state.changes) <= 4


def test_what_a_clock_that_was_set_back_leaves_in_the_future_does_not_count():
    state, _ = changed(PresenceState(), True, 1e9, SETTINGS)
    state, until, _ = _flap(state, 1e9, 4)
    assert until is None
    state, until, now = _flap(state, 0.0, 4)
    assert (until, flaps(state, now, 100)) == (None, 4)
    state, _, _ = _flap(PresenceState(since=1e9, strikes=3, struck_at=1e9), 0.0, 5)
    assert state.strikes == 1


def test_each_further_quarantine_is_twice_as_long_up_to_a_bound():
    state, _ = changed(PresenceState(), True, 0.0, SETTINGS)
    waits, now = [], 0.0
    for _ in range(5):
        state, until, now = _flap(state, now, 5)
        waits.append(until - now)
    assert waits == [50, 100, 200, 300, 300]


def test_after_a_calm_time_the_next_one_is_a_first_one():
    state, _ = changed(PresenceState(), True, 0.0, SETTINGS)
    state, _, now = _flap(state, 0.0, 5)
    state, until, now = _flap(state, now, 5)
    assert until == now + 100
    state, until, now = _flap(state, now + 1000, 5)
    assert until == now + 50


def test_a_device_that_flaps_for_years_overflows_nothing():
    state, _ = changed(PresenceState(), True, 0.0, SETTINGS)
    state, until, now = _flap(state, 0.0, 5 * 2000, gap_s=0.1)
    assert state.strikes == 2000
    assert until == now + 300
