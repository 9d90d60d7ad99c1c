"""A wall clock that jumps moves the agent's time by a bounded amount, once."""

from hypothesis import given
from hypothesis import strategies as st

from edge.journal.agent_clock import Stamp, resumed

HOUR = 3600.0
SECONDS = st.floats(0, 1e10)


def test_time_begins_at_nothing() -> None:
    assert resumed(None, Stamp("a", 77.0, 1e9, 0.0), 12 * HOUR).agent_s == 0.0


def test_a_restart_of_the_process_goes_by_the_monotonic_clock_whatever_the_wall_clock_says() -> (
    None
):
    last = Stamp("a", 100.0, 1e9, 50.0)
    assert resumed(last, Stamp("a", 160.0, 0.0, 0.0), 12 * HOUR).agent_s == 110.0
    assert resumed(last, Stamp("a", 160.0, 9e9, 0.0), 12 * HOUR).agent_s == 110.0


def test_an_hours_reboot_counts_as_an_hour() -> None:
    last = Stamp("a", 9000.0, 1e9, 50.0)
    assert resumed(last, Stamp("b", 3.0, 1e9 + HOUR, 0.0), 12 * HOUR).agent_s == 50.0 + HOUR


def test_a_clock_that_wakes_up_in_another_year_counts_as_the_bound() -> None:
    last = Stamp("a", 9000.0, 1e9, 50.0)
    assert resumed(last, Stamp("b", 3.0, 2e9, 0.0), 12 * HOUR).agent_s == 50.0 + 12 * HOUR


def test_a_clock_that_went_back_counts_as_nothing() -> None:
    last = Stamp("a", 9000.0, 1e9, 50.0)
    assert resumed(last, Stamp("b", 3.0, 0.0, 0.0), 12 * HOUR).agent_s == 50.0


def test_without_a_boot_id_only_the_wall_clock_counts() -> None:
    last = Stamp("", 100.0, 1e9, 50.0)
    assert resumed(last, Stamp("", 160.0, 1e9 + 5, 0.0), 12 * HOUR).agent_s == 55.0


@given(SECONDS, SECONDS, SECONDS, SECONDS, SECONDS, st.booleans())
def test_it_never_runs_backwards_nor_leaps_over_a_reboot(
    m0: float, w0: float, a0: float, m1: float, w1: float, same_boot: bool
) -> None:
    last, now = Stamp("a", m0, w0, a0), Stamp("a" if same_boot else "b", m1, w1, 0.0)
    later = resumed(last, now, 12 * HOUR).agent_s
    assert later >= a0
    assert same_boot or later <= a0 + 12 * HOUR
