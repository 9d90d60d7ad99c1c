import math

import pytest

from simulations.serve_bench.results import Mixed, Overload, Results
from simulations.serve_bench.verdicts import missing, of_cells, of_mixed, of_overload
from tests.simulations.serve_bench.found import MACHINE, cells, phase, run


@pytest.mark.parametrize(
    ("peer", "theirs", "is_met"),
    [
        ("mosec", 100.0, True),
        ("mosec", 100.1, False),
        ("mlserver", 12.0, True),
        ("mlserver", 12.1, False),
        ("ray", 12.1, False),
        ("bentoml", 12.1, False),
        ("litserve", 12.1, False),
    ],
)
@pytest.mark.parametrize("level", [64, 256])
def test_each_peer_has_the_issue_s_ratio(
    peer: str, theirs: float, is_met: bool, level: int
) -> None:
    found = of_cells(cells({("ours", level): [run(120.0)], (peer, level): [run(theirs)]}))
    rate = next(one for one in found if one.what.startswith("requests/s"))
    assert rate.met is is_met


@pytest.mark.parametrize("level", [1, 8])
@pytest.mark.parametrize(("theirs_ms", "is_met"), [(1.1, True), (0.9, False)])
def test_where_it_is_calm_our_p50_is_below_triton_s(
    theirs_ms: float, is_met: bool, level: int
) -> None:
    found = of_cells(
        cells({("ours", level): [run(p50_ms=1.0)], ("triton", level): [run(p50_ms=theirs_ms)]})
    )
    assert next(one for one in found if one.what.startswith("p50")).met is is_met


def test_p99_is_compared_with_the_best_peer_and_with_no_floor_and_nobody_who_answered_nothing() -> (
    None
):
    measured = cells({
        ("ours", 8): [run(p99_ms=5.0)],
        ("mosec", 8): [run(p99_ms=6.0)],
        ("kserve", 8): [run(p99_ms=9.0)],
        ("echo", 8): [run(p99_ms=1.0)],
        ("ray", 8): [run(0.0, p99_ms=0.0)],
        ("ours-json", 8): [run(p99_ms=2.0)],
    })  # fmt: skip
    (p99,) = (one for one in of_cells(measured) if one.what.startswith("p99"))
    assert (p99.reference, p99.met) == (6.0, True)
    assert "the mosec" in p99.what


def test_a_ratio_is_taken_round_by_round_so_a_noisy_minute_hits_both() -> None:
    ours = [run(240.0), run(24.0), run(240.0)]
    theirs = [run(200.0), run(20.0), run(100.0)]
    (rate, _) = of_cells(cells({("ours", 64): ours, ("mosec", 64): theirs}))
    assert (rate.value, rate.reference, rate.ratio) == (240.0, 100.0, 1.2)


def test_with_rounds_of_another_number_medians_are_compared() -> None:
    (rate, _) = of_cells(cells({("ours", 64): [run(300.0)] * 5, ("ray", 64): [run(20.0)] * 3}))
    assert rate.ratio == 15.0


def test_a_server_that_answered_nothing_is_infinitely_slower() -> None:
    (rate,) = of_cells(cells({("ours", 64): [run()], ("ray", 64): [run(0.0, p99_ms=0.0)]}))
    assert rate.ratio == math.inf
    assert rate.met


def test_a_peer_that_was_not_measured_has_no_verdict() -> None:
    assert not list(of_cells(cells({("ours", 64): [run()]}, {"mosec": "no wheel"})))


def test_without_ours_nothing_is_met() -> None:
    measured = cells({("mosec", 64): [run()]}, {"ours": "it answered 404"})
    assert missing(Results(machine=MACHINE, cells=measured)) == ["cells: ours: it answered 404"]
    assert missing(Results(machine=MACHINE, failed={"mqtt": "no broker"})) == ["mqtt: no broker"]


def _overload(**changed: object) -> Overload:
    values: dict[str, object] = {
        "measured_at": "today", "model": "m", "capacity_per_second": 1_000.0,
        "at_80": phase(p99_ms=10.0), "at_200": phase(p99_ms=15.0, refused=900, refused_p99_ms=9.9),
        "recovered_s": 1.9, "resident_mb": (100.0, 101.0), "growth_mb_per_minute": 1.9,
    }  # fmt: skip
    return Overload.model_validate(values | changed)


def test_an_overload_that_keeps_every_promise_is_met() -> None:
    assert [one.met for one in of_overload(_overload())] == [True] * 5


@pytest.mark.parametrize(
    ("changed", "missed"),
    [
        ({"at_200": phase(p99_ms=15.1)}, "accepted requests' p99"),
        ({"at_200": phase(refused=9, refused_p99_ms=10.1)}, "refusals' p99"),
        ({"at_200": phase(failed=1, refused=10_000)}, "neither answered nor refused"),
        ({"recovered_s": 2.1}, "recovered after"),
        ({"growth_mb_per_minute": 2.1}, "memory grows"),
    ],
)
def test_each_promise_that_an_overload_breaks_is_named(
    changed: dict[str, object], missed: str
) -> None:
    (broken,) = (one for one in of_overload(_overload(**changed)) if not one.met)
    assert missed in broken.what


@pytest.mark.parametrize(("beside_ms", "is_met"), [(11.0, True), (11.1, False)])
def test_a_batch_may_cost_a_tenth_of_p99_in_the_median_of_pairs(
    beside_ms: float, is_met: bool
) -> None:
    p99, _ = of_mixed(_mixed(beside_ms, batch_per_second=100.0))
    assert p99.met is is_met


@pytest.mark.parametrize(("batch_per_second", "is_met"), [(100.0, True), (99.0, False)])
def test_a_batch_that_stands_still_does_not_meet_its_target(
    batch_per_second: float, is_met: bool
) -> None:
    _, goes_on = of_mixed(_mixed(10.0, batch_per_second))
    assert goes_on.met is is_met


def _mixed(beside_ms: float, batch_per_second: float) -> Mixed:
    return Mixed(
        measured_at="today", online_share=0.5, online_per_second=1_000,
        batch_per_second=batch_per_second,
        alone=(phase(p99_ms=10.0), phase(p99_ms=10.0), phase(p99_ms=100.0)),
        beside=(phase(p99_ms=beside_ms), phase(p99_ms=50.0), phase(p99_ms=1.0)),
    )  # fmt: skip
