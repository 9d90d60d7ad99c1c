import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from cloud.capacity.autoscaling import Load, Scaling, Wanted, first, needed, replay, step

RULES = Scaling(
    qps_at_sla=100, load_max=0.8, workers_min=2, workers_max=20, cooldown_s=300, step_s=60
)


def run(*loads: tuple[float, float, int]) -> list[int]:
    return [wanted.workers for wanted in replay(RULES, [Load(*load) for load in loads])]


@pytest.mark.parametrize(
    ("qps", "workers"),
    [(0, 2), (160, 2), (160.1, 3), (800, 10), (801, 11), (1600, 20), (1e9, 20), (-5, 2)],
)
def test_the_number_is_what_the_load_needs_within_the_bounds(qps: float, workers: int) -> None:
    assert needed(RULES, qps) == workers


def test_up_goes_at_once_and_by_doubling_at_most() -> None:
    assert run((0, 100, 2), (15, 1500, 2), (30, 1500, 2), (45, 1500, 2), (60, 1500, 2)) == [
        2, 4, 8, 16, 19,
    ]  # fmt: skip


def test_a_load_that_is_a_little_higher_gets_just_what_it_needs() -> None:
    assert run((0, 400, 5), (15, 410, 5)) == [5, 6]


def test_down_goes_one_at_a_time_after_a_quiet_period() -> None:
    loads = [(0.0, 800.0, 10)] + [(15.0 * n, 100.0, 10) for n in range(1, 40)]
    wanted = run(*loads)
    assert wanted[:20] == [10] * 20  # the last high was at 0: 300 s are over at number 20
    assert wanted[20:29] == [9, 9, 9, 9, 8, 8, 8, 8, 7]


def test_a_peak_within_the_quiet_period_keeps_what_it_needed() -> None:
    loads = [(0.0, 800.0, 10), (15.0, 100.0, 10), (150.0, 720.0, 10), (165.0, 100.0, 10)]
    loads += [(180.0 + 15 * n, 100.0, 10) for n in range(25)]
    wanted = run(*loads)
    times = [at for at, _, _ in loads]
    assert wanted[times.index(300.0)] == 9  # what 150 needed
    assert wanted[times.index(435.0)] == 9
    assert wanted[times.index(450.0)] == 8


def test_nobody_goes_while_others_start() -> None:
    before = Wanted(10, ((0.0, 2),))
    assert step(RULES, before, Load(1000, 100, 9)).workers == 10
    assert step(RULES, before, Load(1000, 100, 10)).workers == 9


def test_an_autoscaler_that_begins_waits_a_quiet_period_before_anybody_goes() -> None:
    began = first(RULES, 800, 1000.0)
    assert step(RULES, began, Load(1015, 100, 10)).workers == 10
    assert step(RULES, began, Load(1300, 100, 10)).workers == 9


def test_nothing_of_nothing() -> None:
    assert replay(RULES, []) == []


def test_bounds_that_cross_are_refused() -> None:
    with pytest.raises(ValidationError, match="workers_max 2 is below workers_min 3"):
        Scaling(qps_at_sla=1, workers_min=3, workers_max=2)


@given(
    st.lists(st.tuples(st.floats(0, 5000), st.integers(0, 25)), min_size=1, max_size=80),
    st.integers(1, 8), st.integers(0, 20), st.floats(0, 600), st.floats(0, 300),
)  # fmt: skip
def test_whatever_comes(
    loads: list[tuple[float, int]], least: int, more: int, cooldown_s: float, step_s: float
) -> None:
    rules = Scaling(
        qps_at_sla=100, workers_min=least, workers_max=least + more, cooldown_s=cooldown_s,
        step_s=step_s,
    )  # fmt: skip
    found = replay(rules, [Load(15.0 * n, qps, ready) for n, (qps, ready) in enumerate(loads)])
    for before, after, (qps, _) in zip(found, found[1:], loads[1:], strict=False):
        assert rules.workers_min <= after.workers <= rules.workers_max
        assert before.workers - 1 <= after.workers <= before.workers * 2
        if after.workers < before.workers:
            assert needed(rules, qps) <= after.workers
        assert after.workers >= min(needed(rules, qps), before.workers * 2)
        assert len(after.highs) <= rules.workers_max - rules.workers_min + 1
