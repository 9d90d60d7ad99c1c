import re
from dataclasses import replace
from pathlib import Path

import pytest

from cloud.capacity.autoscaling import Scaling
from simulations.autoscale_replay.__main__ import MEASURED, compare, main, traces
from simulations.autoscale_replay.fleet import Fleet, Machine, Worker
from simulations.autoscale_replay.replay import replay
from simulations.autoscale_replay.trace import Trace

MACHINE = Machine(qps_at_sla=400, qps_max=500)
HOURS_MAX, ALL_HOURS_MAX = 1.2, 1.01
"""Worker-hours beside the threshold's, of one trace and of all: what fewer misses may cost."""


def test_the_recorded_loads_are_there() -> None:
    assert {t.name: (len(t.requests), t.stands_for_s) for t in traces()} == {
        "diurnal": (240, 360.0), "spike": (120, 30.0), "step": (120, 60.0),
    }  # fmt: skip
    assert all(sum(trace.requests) > 5_000 for trace in traces())


@pytest.mark.parametrize("trace", traces(), ids=lambda t: t.name)
@pytest.mark.parametrize("start_s", [30.0, 60.0, 180.0])
def test_the_policy_misses_the_sla_no_more_often_than_a_threshold(
    trace: Trace, start_s: float
) -> None:
    ours, threshold = compare(trace, replace(MEASURED, start_s=start_s))
    assert (ours.policy, threshold.policy) == ("qps at sla", "cpu 70%")
    assert ours.asked == threshold.asked
    assert ours.over <= threshold.over
    if start_s <= 60:
        assert ours.worker_hours <= HOURS_MAX * threshold.worker_hours


def test_and_costs_no_more_than_stated_over_all() -> None:
    pairs = [compare(trace, MEASURED) for trace in traces()]
    ours, threshold = (sum(pair[n].worker_hours for pair in pairs) for n in (0, 1))
    assert ours <= ALL_HOURS_MAX * threshold


@pytest.mark.parametrize("trace", traces(), ids=lambda t: t.name)
def test_a_worker_that_is_not_ready_never_gets_traffic(trace: Trace) -> None:
    for outcome in compare(trace, MACHINE):
        started = [worker for worker in outcome.workers if worker.ready_at > 0]
        assert started
        for worker in outcome.workers:
            assert worker.first_answer_at is None or worker.first_answer_at >= worker.ready_at


def test_every_request_is_answered_over_or_waits() -> None:
    (trace,) = [t for t in traces() if t.name == "spike"]
    for outcome in compare(trace, MACHINE):
        answered = sum(worker.answered for worker in outcome.workers)
        waiting = outcome.asked - outcome.over - answered
        assert -1e-6 <= waiting <= 24 * 400 * MACHINE.sla_s


def test_a_fleet_answers_what_the_ready_ones_can() -> None:
    fleet = Fleet(Machine(100, 200, sla_s=0.05, start_s=2), [Worker(0.0), Worker(0.0)])
    calm = fleet.second(0, 150)
    assert (calm.over, calm.utilisation) == (0, pytest.approx(150 / 400))
    fleet.want(4, 0.0)
    full = fleet.second(1, 500)  # two answer 200, 10 may wait
    assert full.over == pytest.approx(290)
    assert full.utilisation == 1
    assert fleet.second(2, 390).over == 0  # four answer 400: those 10, too
    assert fleet.worker_s == 2 + 4 + 4
    fleet.want(1, 3.0)
    assert [worker.answered for worker in fleet.workers] == [pytest.approx(75 + 100 + 100)]


def test_the_newest_leave_first() -> None:
    fleet = Fleet(MACHINE, [Worker(0.0), Worker(0.0)])
    fleet.want(3, 10.0)
    fleet.want(2, 11.0)
    assert [worker.ready_at for worker in fleet.workers] == [0.0, 0.0]
    assert [worker.ready_at for worker in fleet.gone] == [70.0]


def test_a_steady_load_costs_what_it_needs_and_misses_nothing() -> None:
    scaling = Scaling(qps_at_sla=400)
    outcome = replay("qps at sla", [1600.0] * 60, 60.0, MACHINE, scaling)
    assert outcome.over == 0
    assert outcome.worker_hours == pytest.approx(6.0)
    assert outcome.workers_max == 6


def test_the_page_says_what_comes_out() -> None:
    page = (Path(__file__).parents[3] / "docs" / "capacity.md").read_text()
    rows = re.findall(r"^\| (?:a|an|two) .*$", page, re.MULTILINE)
    assert len(rows) == 3
    for row, trace in zip(rows, traces(), strict=True):
        ours, threshold = compare(trace, MEASURED)
        digits = 2 if trace.name == "diurnal" else 1
        assert row.split("|")[2:6] == [
            f" {ours.over_share:.{digits}%} ", f" {threshold.over_share:.{digits}%} ",
            f" {ours.worker_hours:.1f} ", f" {threshold.worker_hours:.1f} ",
        ]  # fmt: skip


def test_the_command_prints_both_policies_for_each_load(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["autoscale_replay"])
    main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + 2 * 3
    assert [line.split()[0] for line in lines[2::2]] == ["diurnal", "spike", "step"]
