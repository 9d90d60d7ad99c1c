"""The table and its place in a page."""

from dataclasses import replace

import pytest

from simulations.drift_loop.table import table, written
from tests.cloud.demo.drift.test_verdict import GOOD


def test_a_row_for_each_shift_and_what_was_refused():
    bad = replace(GOOD, kind="noise 30", why="the cycle refused: the teacher is no better")
    text = table([GOOD, bad], bad)
    assert "| blur 1.0 | 120 samples | 900 | 73.0%, 90.0% | 85% | 93.0%, 92.8% | 60 s |" in text
    assert (
        "| noise 30 | 120 samples | 900 | the cycle refused: the teacher is no better | | | |"
        in text
    )
    assert "under noise 30: the cycle refused" in text


def test_it_is_written_between_its_markers():
    page = "a\n<!-- drift -->\nold\n<!-- /drift -->\nb\n"
    assert written(page, "new\n") == "a\n<!-- drift -->\nnew\n<!-- /drift -->\nb\n"
    with pytest.raises(ValueError, match="there is no"):
        written("nothing", "new\n")
