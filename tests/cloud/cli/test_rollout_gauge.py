from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud.cli.rollout_gauge import BLOCKS, PLAIN, bar, bound_of, gauge, shared_out
from cloud.rollouts.documents import CriterionView
from tests.cloud.cli.rollout_views import CRITERIA, STAGES


def test_a_bar_shows_each_kind_in_proportion() -> None:
    assert bar(STAGES[0], 10, PLAIN) == "##########"
    assert bar(STAGES[1], 10, PLAIN) == "######>>xx"
    assert bar(STAGES[2], 10, PLAIN) == ".........-"
    assert bar(STAGES[1], 10) == "██████▒▒✗✗"


def test_a_stage_without_devices_is_empty() -> None:
    none = STAGES[0].model_copy(update={"devices": 0, "done": 0})
    assert bar(none, 4, PLAIN) == "...."


def test_one_failed_device_of_thousands_is_seen() -> None:
    stage = STAGES[0].model_copy(update={"devices": 10_000, "done": 9_999, "failed": 1})
    assert Counter(bar(stage, 32, PLAIN)) == {"#": 31, "x": 1}


def test_a_stage_that_reports_more_than_it_has_is_still_drawn() -> None:
    stage = STAGES[0].model_copy(update={"devices": 1, "done": 3, "failed": 3})
    assert len(bar(stage, 8, PLAIN)) == 8


@given(st.lists(st.integers(0, 10**6), min_size=5, max_size=5), st.integers(5, 80))
def test_cells_add_up_and_none_is_hidden(parts: list[int], width: int) -> None:
    cells = shared_out(tuple(parts), width)
    assert sum(cells) == (width if any(parts) else 0)
    assert all((cell > 0) == (part > 0) for cell, part in zip(cells, parts, strict=True))


@pytest.mark.parametrize(
    ("text", "control", "bound"),
    [
        ("silent <= 0.05", None, 0.05),
        ("disagreement <= control + 0.02", 0.5, 0.52),
        ("p95_latency_ms <= control * 1.5", 10.0, 15.0),
        ("escalation_rate <= control", 0.3, 0.3),
        ("escalation_rate <= control", None, None),
        ("agreement >= 0.8", None, 0.8),
        ("of_a_newer_fleet ~ 3", 0.3, None),
    ],
)
def test_the_bound_as_it_is_now(text: str, control: float | None, bound: float | None) -> None:
    found = bound_of(CriterionView(text=text, verdict="open", control=control))
    assert found == (None if bound is None else pytest.approx(bound))


def drawn(text: str, at: float | None, low: float | None, high: float | None) -> str:
    one = CriterionView(text=text, verdict="open", cohort=at, cohort_low=low, cohort_high=high)
    return gauge(one, 20, PLAIN)


def test_a_gauge_has_its_interval_on_its_side_of_the_bound() -> None:
    assert drawn("silent <= 0.1", 0.02, 0.01, 0.04) == ".(-o---)..........|."
    assert drawn("silent <= 0.1", 0.1, 0.05, 0.2) == "....(----|--------)."
    assert drawn("silent <= 0.01", 0.5, 0.4, 0.6) == "|...........(--o--)."


def test_a_gauge_below_zero_and_one_without_an_interval() -> None:
    assert drawn("accuracy_loss <= 0.005", -0.01, -0.02, 0.001).count("|") == 1
    assert drawn("silent <= 0.1", 0.05, None, None) == ".........o........|."
    assert drawn("silent <= 0.1", None, None, None) == " " * 20


def test_a_gauge_where_everything_is_nothing() -> None:
    assert drawn("golden_failures <= 0", 0.0, 0.0, 0.0)[0] == "|"
    assert len(drawn("golden_failures <= 0", 0.0, 0.0, 0.0)) == 20


@given(*[st.floats(-1e300, 1e300)] * 3)
def test_a_gauge_has_its_width_whatever_it_is_given(at: float, low: float, high: float) -> None:
    low, high = min(low, high), max(low, high)
    assert len(drawn("p95_latency_ms <= 30", at, low, high)) == 20


def test_the_marks_have_a_meaning_each() -> None:
    for marks in (BLOCKS, PLAIN):
        in_bars = {marks.done, marks.in_flight, marks.failed, marks.left, marks.queued}
        in_gauges = {marks.low, marks.high, marks.inside, marks.point, marks.bound, marks.outside}
        assert (len(in_bars), len(in_gauges)) == (5, 6)
    assert CRITERIA[2].cohort is None
