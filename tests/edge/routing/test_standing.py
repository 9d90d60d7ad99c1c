"""Levels move up by evidence and down by patience; audits stay raised for so long, and within room."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.routing.settings import Novelty
from edge.routing.standing import STRAYS_MAX, Evidence, Level, Standing, moved

SETTINGS = Novelty(calm_looks=32, raised_s_max=100.0)
QUIET = Evidence(score=0.1, strays=0, window_looks=64, looks=16, elapsed_s=1.0, room=1.0)
WATCHFUL = replace(QUIET, score=SETTINGS.watchful_score)
NOVEL = replace(QUIET, score=SETTINGS.novel_score)


def after(*evidence: Evidence, start: Standing | None = None) -> Standing:
    standing = start or Standing()
    for one in evidence:
        standing = moved(standing, one, SETTINGS)
    return standing


@pytest.mark.parametrize(
    ("evidence", "level"),
    [
        (QUIET, "calm"),
        (replace(QUIET, score=0.749), "calm"),
        (WATCHFUL, "watchful"),
        (replace(QUIET, score=1.499), "watchful"),
        (NOVEL, "novel"),
        (replace(QUIET, strays=STRAYS_MAX), "calm"),  # ordinary
        (replace(QUIET, strays=STRAYS_MAX + 1), "watchful"),
        (replace(QUIET, strays=15), "watchful"),
        (replace(QUIET, strays=16), "novel"),  # a quarter, whatever the score
        (replace(QUIET, strays=4, window_looks=16), "novel"),  # of a window that has just begun
    ],
)
def test_what_calm_becomes(evidence: Evidence, level: Level) -> None:
    assert after(evidence).level == level


@pytest.mark.parametrize(("start", "level"), [(WATCHFUL, "watchful"), (NOVEL, "novel")])
def test_a_level_falls_once_the_score_was_low_for_long_enough(
    start: Evidence, level: Level
) -> None:
    assert after(start, QUIET).level == level
    assert after(start, QUIET, QUIET).level == "calm"
    assert after(start, QUIET, WATCHFUL, QUIET).level == level, "in a row"


def test_a_quiet_step_of_a_calm_device_changes_nothing_and_makes_nothing() -> None:
    settled = after(QUIET, QUIET)
    assert after(QUIET, start=settled) is settled
    assert after(NOVEL, start=settled).level == "novel", "evidence still moves it"
    still_owed = replace(settled, raised_s=50.0, raised_out=True)
    assert after(QUIET, start=still_owed) == replace(still_owed, raised_s=49.0, raised_out=False)


def test_novel_does_not_sink_to_watchful() -> None:
    assert after(NOVEL, WATCHFUL).level == "novel"


def test_audits_are_raised_while_inputs_are_novel_and_at_no_other_time() -> None:
    assert after(NOVEL).audit_share(0.01) == 0.2
    assert after(NOVEL).audit_share(0.5) == 0.5, "nothing lowers what is asked for anyway"
    assert after(WATCHFUL).audit_share(0.01) == 0.01
    assert after(NOVEL, QUIET, QUIET).audit_share(0.01) == 0.01


def test_audits_take_no_more_than_the_budget_has_room_for() -> None:
    tight = replace(NOVEL, room=0.06)
    assert after(tight).audit_share(0.01) == 0.05  # halved twice
    assert after(replace(NOVEL, room=0.0)).audit_share(0.01) == 0.01
    assert after(NOVEL, replace(QUIET, room=0.12)).audit_share(0.01) == 0.1
    assert after(tight, NOVEL).audit_share(0.01) == 0.05, "it never rises within one spell"
    assert after(tight, QUIET, QUIET, NOVEL).audit_share(0.01) == 0.2


def test_audits_stay_raised_for_so_long_at_most() -> None:
    spent = after(NOVEL, *[replace(NOVEL, elapsed_s=50.0)] * 2)
    assert spent.raised_out
    assert (spent.level, spent.audit_share(0.01)) == ("novel", 0.01)
    assert after(NOVEL, replace(NOVEL, elapsed_s=99.0)).audit_share(0.01) == 0.2


def test_half_of_the_time_has_to_be_made_good_first() -> None:
    spent = after(NOVEL, replace(NOVEL, elapsed_s=100.0))
    calm = after(QUIET, QUIET, start=spent)
    assert calm.level == "calm"
    again = after(replace(QUIET, elapsed_s=40.0), NOVEL, start=calm)
    assert (again.level, again.audit_share(0.01)) == ("novel", 0.01)
    rested = after(replace(QUIET, elapsed_s=50.0), NOVEL, start=calm)
    assert rested.audit_share(0.01) == 0.2


EVIDENCE = st.builds(
    Evidence, score=st.floats(-1, 20), strays=st.integers(0, 64), window_looks=st.just(64),
    looks=st.just(16), elapsed_s=st.floats(0, 60), room=st.floats(0, 2),
)  # fmt: skip


@given(st.lists(EVIDENCE, max_size=60))
def test_whatever_is_seen_raised_time_is_bounded_and_shares_are_few(seen: list[Evidence]) -> None:
    standing, elapsed, raised_s, shares = Standing(), 0.0, 0.0, set[float]()
    for one in seen:
        elapsed += one.elapsed_s
        if standing.audit_share(0.01) > 0.01:
            raised_s += one.elapsed_s
        standing = moved(standing, one, SETTINGS)
        share = standing.audit_share(0.01)
        assert 0.01 <= share <= max(one.room, 0.01)
        shares.add(share)
    # Each second beyond the first spell was made good by a second that was not raised.
    assert raised_s <= SETTINGS.raised_s_max + 60 + (elapsed - raised_s)
    assert shares <= {0.01, 0.2, 0.1, 0.05, 0.025, 0.0125}
