"""What share of time a batch gets for what the online tier says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud.batch.governor import Pace, Rules, batch_rows, pace, rest_s
from cloud.batch.online_load import OnlineLoad

RUNNING = Pace(0.5, "")
IDLE = OnlineLoad(busy_share=0.0, queue_depth=0, p99_ms=2.0, p99_target_ms=10.0)


def loaded(**members: object) -> OnlineLoad:
    return IDLE.model_copy(update=members)


def test_it_climbs_to_the_idle_share_and_no_further() -> None:
    load, now, shares = loaded(busy_share=0.4), Pace(0.0, ""), []
    for _ in range(20):
        now = pace(now, load, 0.25, Rules(climb_per_s=0.2))
        shares.append(now.share)
    assert shares[:3] == pytest.approx([0.05, 0.10, 0.15])
    assert shares[-1] == pytest.approx(0.6)


def test_it_falls_to_the_idle_share_at_once() -> None:
    assert pace(Pace(1.0, ""), loaded(busy_share=0.7), 0.25, Rules()).share == pytest.approx(0.3)


def test_it_stops_while_requests_wait() -> None:
    now = pace(RUNNING, loaded(queue_depth=17), 0.25, Rules())
    assert now == Pace(0.0, "17 online requests wait")


def test_a_depth_that_is_allowed_does_not_stop_it() -> None:
    assert pace(RUNNING, loaded(queue_depth=8), 0.25, Rules(depth_max=8)).share > 0


def test_it_stops_while_p99_is_over_the_stated_target() -> None:
    assert pace(RUNNING, loaded(p99_ms=10.1), 0.25, Rules()).share == 0
    assert pace(RUNNING, loaded(p99_ms=10.0), 0.25, Rules()).share > 0


def test_a_target_of_ones_own_goes_before_the_stated_one() -> None:
    assert pace(RUNNING, loaded(p99_ms=6.0), 0.25, Rules(p99_ms_max=5.0)).share == 0
    assert pace(RUNNING, loaded(p99_ms=12.0), 0.25, Rules(p99_ms_max=20.0)).share > 0


def test_without_requests_there_is_no_p99_to_be_over() -> None:
    assert pace(RUNNING, loaded(p99_ms=None), 0.25, Rules()).share > 0


def test_it_stops_when_nothing_is_idle() -> None:
    now = pace(RUNNING, loaded(busy_share=0.99), 0.25, Rules())
    assert now == Pace(0.0, "the online tier is busy 99% of the time")


def test_an_online_tier_that_does_not_answer_leaves_a_low_share() -> None:
    assert pace(Pace(1.0, ""), None, 0.25, Rules(share_unknown=0.1)).share == 0.1
    assert pace(Pace(1.0, ""), None, 0.25, Rules(share_unknown=0.1, share_max=0.05)).share == 0.05


def test_after_a_stop_it_starts_low() -> None:
    assert pace(Pace(0.0, ""), IDLE, 0.0, Rules()).share == Rules().share_min


def test_rest_makes_the_share() -> None:
    assert rest_s(0.25, 0.010) == pytest.approx(0.030)
    assert rest_s(1.0, 0.010) == 0


def test_a_batch_ends_within_the_pause() -> None:
    assert batch_rows(lambda rows: rows * 0.001, 0.010, 64) == 8
    assert batch_rows(lambda rows: rows * 0.0001, 0.010, 64) == 64
    assert batch_rows(lambda rows: rows * 1.0, 0.010, 64) == 1


@given(
    st.floats(0, 1), st.floats(0, 1), st.integers(0, 100), st.none() | st.floats(0, 1e6),
    st.floats(0, 1e6), st.floats(0.02, 1),
)  # fmt: skip
def test_a_share_is_never_more_than_what_is_idle(
    before: float, busy: float, depth: int, p99_ms: float | None, elapsed_s: float, share_max: float
) -> None:
    load = loaded(busy_share=busy, queue_depth=depth, p99_ms=p99_ms)
    share = pace(Pace(before, ""), load, elapsed_s, Rules(share_max=share_max)).share
    assert 0 <= share <= min(1 - busy, share_max) + 1e-9
