import pytest

from cloud.batch.progress import Progress, Tally, progress


def at(tally: Tally, elapsed_s: float = 10.0, expected: int = 1000) -> Progress:
    return progress(
        tally, state="running", rows_expected=expected, inputs_total=5, elapsed_s=elapsed_s, share=1
    )


def test_what_is_left_at_the_rate_so_far() -> None:
    now = at(Tally(rows=250, inputs=2))
    assert (now.rows_per_s, now.eta_s) == (25.0, 30.0)


def test_before_the_first_batch_nobody_knows() -> None:
    assert at(Tally()).eta_s is None
    assert at(Tally(), elapsed_s=0.0).eta_s is None


def test_inputs_that_hold_more_than_they_look_like_make_it_longer() -> None:
    now = at(Tally(rows=250, rows_unforeseen=500))
    assert (now.rows_expected, now.eta_s) == (1500, pytest.approx(50.0))


def test_never_less_than_is_done() -> None:
    assert at(Tally(rows=250), expected=100).rows_expected == 250
