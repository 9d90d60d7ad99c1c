"""What the drift demo must show."""

from dataclasses import replace

import pytest

from cloud.demo.drift.verdict import Row, failures, mean_failure, mean_regained, not_refused

GOOD = Row(
    kind="blur 1.0", delay_samples=120, data_rows=900, clean_before=0.93, clean_after=0.928,
    before=0.73, after=0.90, cycle_s=60.0, moved=True,
)  # fmt: skip


def test_a_good_run_has_no_failures():
    assert failures(GOOD, 0.007) == []
    assert GOOD.regained == pytest.approx(0.85)


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        (replace(GOOD, delay_samples=201), "201 samples"),
        (replace(GOOD, delay_samples=0), "before anything had drifted"),
        (replace(GOOD, after=0.83), "regained 50%"),
        (replace(GOOD, clean_after=0.92), "clean images"),
        (replace(GOOD, moved=False), "cameras"),
        (replace(GOOD, why="the cycle refused: worse"), "refused"),
    ],
)
def test_each_target_can_be_missed(changed: Row, word: str):
    (said,) = failures(changed, 0.007)
    assert word in said
    assert said.startswith("blur 1.0")


def test_the_mean_counts_beside_each():
    rows = [GOOD, replace(GOOD, after=0.85)]
    assert mean_regained(rows) == pytest.approx((0.85 + 0.6) / 2)
    assert mean_failure(rows)
    assert mean_failure([GOOD]) == []


def test_a_worse_teacher_is_refused_for_that_and_nothing_else():
    refused = replace(GOOD, why="the cycle refused: no better", missed=("teacher_gain",))
    assert not_refused(refused) == []
    for one in (GOOD, replace(refused, missed=("clean",)), replace(refused, why="")):
        (said,) = not_refused(one)
        assert "was not refused as one" in said
