import math

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from cloud.capacity.settings import Budget
from cloud.capacity.stage_budget import STAGES, Times, lines, read_times, since
from cloud.monitoring.stage_times import StageTimes
from cloud.processes.siblings import merged_metrics
from shared.errors import Malformed

TIMES = Times((0.001, 0.01, 0.1, math.inf), (50.0, 90.0, 99.0, 100.0), 2.0)


def text(**observed: list[float]) -> bytes:
    """What a worker that saw these seconds says at /metrics."""
    registry = CollectorRegistry()
    stages = StageTimes(registry)
    for stage, seconds in observed.items():
        for one in seconds:
            stages[stage].observe(one)  # type: ignore[index]  # names are stages'
    return generate_latest(registry)


@pytest.mark.parametrize(
    ("share", "seconds"),
    [
        (0.25, 0.0005), (0.5, 0.001), (0.7, 0.0055), (0.9, 0.01), (0.99, 0.1), (0.995, math.inf),
        (0.0, 0.0),
    ],
)  # fmt: skip
def test_a_percentile_is_linear_within_its_bucket(share: float, seconds: float) -> None:
    assert TIMES.quantile_s(share) == pytest.approx(seconds)


def test_of_nothing_there_is_no_percentile() -> None:
    assert math.isnan(Times((0.1, math.inf), (0.0, 0.0), 0.0).quantile_s(0.99))


def test_an_empty_bucket_is_passed_over() -> None:
    assert Times((1.0, 2.0, math.inf), (0.0, 10.0, 10.0), 15.0).quantile_s(0.5) == 1.5


def test_a_workers_own_text_is_read() -> None:
    times = read_times(text(queue=[0.002] * 99 + [0.2], model=[0.003] * 100).decode())
    assert times["queue"].count == 100
    assert times["queue"].sum_s == pytest.approx(0.398)
    assert times["queue"].quantile_s(0.5) == pytest.approx(0.001 + 0.0015 * 50 / 99)
    assert times["network"].count == 0


def test_processes_of_one_port_are_added_up() -> None:
    merged = merged_metrics({0: text(model=[0.003] * 10), 1: text(model=[0.03] * 30)})
    times = read_times(merged.decode())
    assert times["model"].count == 40
    assert times["model"].quantile_s(0.25) == pytest.approx(0.005)
    assert times["model"].sum_s == pytest.approx(0.93)


def test_what_was_added_between_two_looks() -> None:
    before = read_times(text(queue=[0.2] * 50).decode())
    after = read_times(text(queue=[0.2] * 50 + [0.002] * 10).decode())
    assert since(before, after)["queue"].count == 10
    assert since(before, after)["queue"].quantile_s(1.0) == pytest.approx(0.0025)
    with pytest.raises(Malformed, match="started anew"):
        since(after, before)


def test_lines_say_what_is_over_and_what_share_a_stage_has() -> None:
    times = read_times(text(queue=[0.03] * 100, model=[0.01] * 100).decode())
    found = {line.stage: line for line in lines(times, Budget(queue_ms=49, model_ms=20))}
    assert list(found) == [*STAGES, "total"]
    assert found["queue"].is_over  # 49.75 by its bucket
    assert not found["model"].is_over
    assert found["queue"].share == pytest.approx(0.75)
    assert found["total"].is_estimate
    assert found["total"].mean_ms == pytest.approx(40)
    assert not found["network"].is_over  # nothing was seen


def test_a_percentile_off_the_scale_is_over_any_limit() -> None:
    times = read_times(text(model=[10.0] * 10).decode())
    (model,) = [line for line in lines(times, Budget(model_ms=1e9)) if line.stage == "model"]
    assert model.is_over


def test_without_a_limit_nothing_is_over() -> None:
    times = read_times(text(model=[10.0] * 10).decode())
    free = Budget(model_ms=None, total_ms=None)
    assert not any(line.is_over for line in lines(times, free))


def test_a_workers_own_total_is_taken_where_there_is_one() -> None:
    times = {"queue": TIMES, "total": TIMES}
    (_, total) = lines(times, Budget())
    assert (total.stage, total.is_estimate, total.count) == ("total", False, 100)


@pytest.mark.parametrize(
    "bad",
    [
        'hybridge_stage_seconds_bucket{le="0.1",stage="queue"} x\n',
        'hybridge_stage_seconds_bucket{le="0.1",stage="queue"} 1\n',  # no +Inf
        '# TYPE hybridge_stage_seconds histogram\nhybridge_stage_seconds_bucket{le="+Inf"} 1\n',
        "{{{",
    ],
)  # fmt: skip
def test_what_is_no_metrics_text_is_refused(bad: str) -> None:
    with pytest.raises(Malformed, match="/metrics"):
        read_times("# TYPE hybridge_stage_seconds histogram\n" + bad if "TYPE" not in bad else bad)
