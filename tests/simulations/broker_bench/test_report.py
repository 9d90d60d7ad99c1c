from dataclasses import replace

import pytest

from simulations.broker_bench.cells import Cell
from simulations.broker_bench.loads import Found, Load
from simulations.broker_bench.report import rows

CELL = Cell("rate", "a load", Load("throughput"), ("rate", "cpu?"))
SLOW, FAST = Found(per_second=100.0, broker_cpu_us=9.0), Found(per_second=200.0, broker_cpu_us=3.0)


def test_a_ratio_is_taken_pair_by_pair_so_a_noisy_minute_hits_both() -> None:
    pairs = [(FAST, SLOW), (replace(FAST, per_second=20.0), replace(SLOW, per_second=10.0))] * 2
    rate, cpu = rows(CELL, pairs)
    assert rate.ratio == 2.0
    assert rate.met
    assert cpu.rule is None


@pytest.mark.parametrize(
    ("metric", "ours", "theirs", "is_met"),
    [
        ("rate", Found(per_second=99.0), Found(per_second=100.0), False),
        ("rate", Found(per_second=100.0), Found(per_second=100.0), True),
        ("p99", Found(p99_ms=2.0), Found(p99_ms=1.0), False),
        ("p99", Found(p99_ms=1.0), Found(p99_ms=2.0), True),
        ("peak", Found(peak_mb=199.0), Found(peak_mb=100.0), True),
        ("peak", Found(peak_mb=201.0), Found(peak_mb=100.0), False),
        ("answered", Found(answered=4_999), Found(answered=5_000), False),
    ],
)
def test_each_target_is_the_issue_s(metric: str, ours: Found, theirs: Found, is_met: bool) -> None:
    (row,) = rows(replace(CELL, metrics=(metric,)), [(ours, theirs)])
    assert row.met is is_met


def test_what_the_embedded_broker_lost_misses_every_target_and_what_mosquitto_lost_is_told() -> (
    None
):
    lossy = replace(FAST, lost=3)
    assert [row.met for row in rows(CELL, [(lossy, SLOW)])] == [False, False]
    rate, cpu = rows(CELL, [(FAST, replace(SLOW, lost=5, refused=1))])
    assert (rate.met, rate.note) == (True, "mosquitto: 1 refused, 5 lost")
    assert (cpu.met, cpu.note) == (True, "")


def test_a_share_group_s_spread_is_its_least_share_of_an_even_one() -> None:
    uneven, even = Found(by_consumer=(10, 20, 30, 40)), Found(by_consumer=(25, 25, 25, 25))
    (row,) = rows(replace(CELL, metrics=("spread?",)), [(uneven, even)])
    assert (row.embedded, row.mosquitto) == (40.0, 100.0)
