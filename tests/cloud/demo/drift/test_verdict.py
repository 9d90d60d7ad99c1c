"""What the drift demo must show."""

from dataclasses import replace

import pytest

from cloud.demo.drift.verdict import Row, failures, mean_failure, mean_regained

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
