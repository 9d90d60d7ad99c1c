from pathlib import Path

import pytest

from cloud.capacity.load.arrivals import Stretch
from simulations.autoscale_replay.record import record
from simulations.autoscale_replay.shapes import SHAPES, Shape
from simulations.autoscale_replay.trace import Trace, read, write
from tests.cloud.workers import worker


def test_what_a_real_worker_answers_is_what_is_kept(tmp_path: Path) -> None:
    shape = Shape("short", 60.0, (Stretch(20.0, 1.0), Stretch(100.0, 2.0)))
    with worker(tmp_path) as one:
        one.ready()
        trace = record(one.api, "tiny-cloud", shape, tmp_path)
    assert (trace.name, trace.stands_for_s, len(trace.requests)) == ("short", 60.0, 3)
    assert sum(trace.requests) == pytest.approx(220, abs=80)
    assert trace.requests[0] < trace.requests[2]


def test_a_trace_is_read_as_it_was_written() -> None:
    trace = Trace("x", 30.0, (4, 0, 7))
    assert read("x", write(trace, ["how", "why"])) == trace
    assert trace.scaled(70.0) == [40.0, 0.0, 70.0]


@pytest.mark.parametrize("bad", ["second,requests\n0,1\n", "# each second stands for: 1 s\nsecond,requests\n1,1\n", "# each second stands for: 1 s\na,b\n"])  # fmt: skip
def test_another_file_is_no_trace(bad: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read("x", bad)


def test_the_shapes_are_as_long_as_they_say() -> None:
    assert [(make().name, make().seconds) for make in SHAPES] == [
        ("diurnal", 240.0), ("spike", 120.0), ("step", 120.0),
    ]  # fmt: skip
