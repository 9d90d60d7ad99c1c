"""When training beside the online tier costs too much, and how that is said."""

import math

import numpy as np
import pytest

from cloud.capacity.load.outcomes import Outcomes
from simulations.training_bench.verdict import Row, order_of, row, table, told


def stretch(p99_ms: float, refused: int = 0, failed: int = 0, answered: int = 1000) -> Outcomes:
    """Each of the answered took as long."""
    status = np.array([200] * answered + [503] * refused + [0] * failed)
    due = np.zeros(len(status))  # all at once, so that no rounding is in what they took
    return Outcomes(due, due + 0.25e-3, due + 0.25e-3, due + p99_ms / 1e3, status)


def found(
    alone: list[Outcomes], beside: list[Outcomes], spinning: list[Outcomes] | None = None,
    cores: float = 1.9,
) -> Row:  # fmt: skip
    order = order_of(len(alone))
    sides = {"nothing": alone, "spinning": spinning or alone, "training": beside}
    stretches = [sides[what][at // 3] for at, what in enumerate(order)]
    return row("as asked", "SCHED_IDLE", order, stretches, cores, 2)


def test_each_round_has_all_three_and_who_begins_changes() -> None:
    order = order_of(6)
    rounds = [order[at : at + 3] for at in range(0, len(order), 3)]
    assert {tuple(sorted(one)) for one in rounds} == {("nothing", "spinning", "training")}
    assert len(set(rounds)) == 6


def test_what_a_busy_core_costs_is_told_and_changes_no_verdict() -> None:
    one = found([stretch(10.0)], [stretch(12.0)], [stretch(11.5)])
    assert one.floor == pytest.approx(1.15)
    assert "beside a loop that only spins / alone: 1.150" in told(one)
    assert not one.holds


@pytest.mark.parametrize(("beside_ms", "holds"), [(11.0, True), (11.01, False), (9.0, True)])
def test_a_tenth_more_holds_and_not_more(beside_ms: float, holds: bool) -> None:
    one = found([stretch(10.0)] * 3, [stretch(beside_ms)] * 3)
    assert one.holds is holds
    assert told(one).endswith(
        f"ratio {beside_ms / 10:.3f}, target <= 1.10: {'holds' if holds else 'missed'}"
    )


def test_all_requests_of_a_side_make_its_p99_and_each_fifth_is_shown() -> None:
    quick, slow = stretch(10.0, answered=990), stretch(40.0, answered=10)
    one = found([quick] * 10, [quick] * 8 + [slow] * 2)
    assert (one.alone.requests, one.beside.requests) == (9900, 7940)
    assert one.beside.p99_ms == pytest.approx(10.0)  # 20 of 7,940 are slow
    assert one.blocks == pytest.approx((1.0, 1.0, 1.0, 1.0, 4.0))


@pytest.mark.parametrize("how", ["refused", "failed"])
def test_who_is_not_answered_counts(how: str) -> None:
    few, many = {how: 1}, {how: 10}
    assert found([stretch(10.0)] * 2, [stretch(10.0, **few)] * 2).holds
    assert found([stretch(10.0, **many)] * 2, [stretch(10.0, **many)] * 2).holds
    one = found([stretch(10.0)] * 2, [stretch(10.0, **many)] * 2)
    assert not one.holds
    assert "missed, since more than 0.1% more were not answered" in told(one)


@pytest.mark.parametrize("silent", ["alone", "beside"])
def test_where_nobody_is_answered_nothing_holds(silent: str) -> None:
    none, some = [stretch(0.0, refused=1000, answered=0)], [stretch(10.0)]
    one = found(none if silent == "alone" else some, none if silent == "beside" else some)
    assert one.ratio == math.inf
    assert not one.holds


def test_variants_are_a_row_each() -> None:
    rows = [found([stretch(10.0)], [stretch(ms)]) for ms in (10.0, 12.0)]
    head, first, second = table(rows).splitlines()
    assert "beside p99" in head
    assert first.endswith("holds")
    assert second.endswith("missed")
    assert ("1.000" in first, "1.200" in second) == (True, True)


def test_a_job_that_did_not_work_shows_nothing() -> None:
    idle = found([stretch(10.0)], [stretch(10.0)], cores=1.7)
    assert not idle.holds
    assert "missed, since the job had less than 90% of its cores" in told(idle)
